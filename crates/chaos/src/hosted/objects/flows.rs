//! One flow after another, which all programs produce and consume.

use super::super::journal::{Event, FlowEvent, FlowKind, System};
use super::super::shared::{FLOW_FILE, FlowInUse, ITEM_BYTES, flow_name, peers, place_of, publish};
use super::{FLOW_LIMIT, KINDS, LOOK_EVERY, Objects, Orders, SEEN_WITHIN};
use rackweave_base::Rng;
use rackweave_controller::{AbortReason, FlowState};
use rackweave_rack::Flow;
use std::sync::atomic::Ordering;

impl Objects {
    /// Closes a flow that is over, and makes the next one.
    pub(super) fn next_flow(&mut self, orders: &Orders, rng: &mut Rng) {
        if let Some((flow, made, since)) = &self.flow {
            let (number, state) = (flow.number, made.state());
            let over = match state {
                FlowState::Running if since.elapsed() < FLOW_LIMIT => return,
                // Without an answer nothing is known of it; the next switch process knows it.
                FlowState::Aborted(AbortReason::ControllerLost) if since.elapsed() < FLOW_LIMIT => {
                    return;
                }
                FlowState::Running => {
                    let limit = FLOW_LIMIT.as_secs();
                    let text = format!("flow {number} neither ends nor is aborted in {limit} s");
                    self.note(Event::Wrong(text));
                    None
                }
                FlowState::Aborted(reason) => Some(reason.to_string()),
                _ => None,
            };
            if over.is_none() && orders.is_whole.load(Ordering::Relaxed) {
                self.flows_left = self.flows_left.saturating_sub(1);
                orders
                    .flows_ended
                    .store(self.flows_left == 0, Ordering::Relaxed);
            }
            self.note(Event::Flow(number, FlowEvent::Over(over)));
            let made = self.flow.take().map(|(_, made, _)| made);
            self.over
                .extend(made.map(|made| (made, std::time::Instant::now())));
        }
        self.over.retain(|(_, since)| since.elapsed() < SEEN_WITHIN);
        // After the repair all shapes come in turn, with everything whole.
        let is_whole = orders.is_whole.load(Ordering::Relaxed);
        if orders.repaired.load(Ordering::Relaxed) && !is_whole || self.flows_left == 0 {
            return;
        }
        let kind = match is_whole {
            true => KINDS[self.flows_left - 1],
            false => *rng.pick(&KINDS),
        };
        match self.make_flow(kind) {
            Ok((flow, made)) => {
                self.flow = Some((flow, made, std::time::Instant::now()));
                publish(&self.folder, FLOW_FILE, &flow);
            }
            Err(error) => {
                self.note(Event::Failed(System::Flows, error));
                std::thread::sleep(LOOK_EVERY * 4);
            }
        }
    }

    fn make_flow(&mut self, kind: FlowKind) -> Result<(FlowInUse, Flow), String> {
        let nodes = || {
            let config = self.rack.config();
            peers().filter_map(|program| place_of(config, program))
        };
        let flow = self.rack.flow(nodes(), nodes()).item_bytes(ITEM_BYTES);
        let flow = match kind {
            FlowKind::Shuffle => flow,
            FlowKind::Balanced => flow.balanced(),
            FlowKind::Replicated => flow.replicated(),
        };
        let number = self.flows;
        self.note(Event::Flow(number, FlowEvent::Made(kind)));
        self.flows += 1;
        let made = flow.build().map_err(|error| error.to_string())?;
        made.share(&flow_name(number))
            .map_err(|error| error.to_string())?;
        let is_last = self.flows_left == 1;
        let flow = FlowInUse {
            number,
            kind,
            is_last,
        };
        Ok((flow, made))
    }
}
