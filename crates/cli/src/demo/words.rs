//! What the demo found, as text.

use super::report::DemoReport;
use super::systems::Table;
use crate::mode::{EMBEDDED, HOSTED};
use rackweave_switch::Counters;
use std::fmt;

impl fmt::Display for DemoReport {
    /// On a rack where several systems ran, what flows found was told when they ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mode != EMBEDDED {
            self.show_flows(f)?;
            return write!(f, "verified: {}", self.verified);
        }
        if let Some(capture) = &self.capture {
            writeln!(
                f,
                "\ncapture: {} packets, {} bytes",
                capture.packets, capture.bytes
            )?;
        }
        write!(f, "\n{}", Table(&self.systems))?;
        if self.interrupted {
            let names: Vec<_> = self.systems.iter().map(|one| one.name.name()).collect();
            writeln!(f, "interrupted: {} began before that", names.join(", "))?;
        }
        write!(f, "verified: {} ({:.0} s)", self.verified, self.seconds)
    }
}

/// What flows found, as text.
struct FlowsInWords<'a>(&'a DemoReport);

impl fmt::Display for FlowsInWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show_flows(f)
    }
}

impl DemoReport {
    /// What flows found, before the report is at its end.
    pub fn flows_in_words(&mut self, counters: &Counters) -> String {
        self.fill_counters(counters);
        FlowsInWords(self).to_string()
    }

    fn show_flows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (factor, rack) = (self.scale_factor, article(self.mode));
        write!(f, "TPC-H at scale factor {factor} on {rack} rack")?;
        // A hosted rack draws its numbers from the system.
        if self.mode == HOSTED {
            writeln!(f, "\n")?;
        } else {
            writeln!(f, ", seed {}\n", self.seed)?;
        }
        for node in &self.nodes {
            write!(f, "  {:<10} {}", node.name, node.did)?;
            if let Some(link) = node.link {
                write!(f, "; link {link}")?;
            }
            if let (Some(up), Some(down)) = (&node.to_switch, &node.from_switch) {
                write!(
                    f,
                    "; link {:.1} % up, {:.1} % down",
                    up.utilisation * 100.0,
                    down.utilisation * 100.0
                )?;
            }
            if let Some(seconds) = node.cpu_communication_seconds {
                write!(f, "; {:.3} ms of CPU for communication", seconds * 1e3)?;
            }
            writeln!(f)?;
        }
        let count = |name: &str| self.switch_counters.get(name).copied().unwrap_or(0);
        writeln!(
            f,
            "  {:<10} moved it all: {} packets in, {} out, {} passes",
            "switch",
            count("packets_in"),
            count("packets_out"),
            count("passes")
        )?;
        match self.switch_takeovers {
            None | Some(0) => {}
            Some(1) => writeln!(
                f,
                "  {:<10} died, and its successor took the flows over",
                ""
            )?,
            Some(n) => writeln!(f, "  {:<10} died {n} times, and a successor took over", "")?,
        }
        for (name, drops) in self
            .switch_counters
            .iter()
            .filter(|(name, _)| name.starts_with("drop_"))
        {
            writeln!(f, "  {:<10} {name} {drops}", "")?;
        }
        self.show_answers(f)?;
        let virtually = if self.real_seconds.is_some() {
            " of virtual time"
        } else {
            ""
        };
        writeln!(
            f,
            "  rows       {} orders, {} line items, {:.1} MB",
            self.rows_orders,
            self.rows_lineitem,
            self.bytes as f64 / 1e6
        )?;
        writeln!(
            f,
            "  shuffle    {:.3} s{virtually}, {:.2} GB/s",
            self.shuffle_seconds, self.gigabytes_per_second
        )?;
        if let (Some(memcpy), Some(ratio)) =
            (self.memcpy_gigabytes_per_second, self.ratio_to_memcpy)
        {
            writeln!(
                f,
                "  memcpy     {memcpy:.2} GB/s on this machine; the shuffle is {ratio:.2} of that"
            )?;
        }
        self.show_fan_out(f, virtually)?;
        if let (Some(events), Some(real), Some(hash)) =
            (self.events, self.real_seconds, &self.trace_hash)
        {
            writeln!(
                f,
                "  simulator  {events} events in {real:.2} s; trace {hash}"
            )?;
        }
        if let Some(capture) = &self.capture {
            writeln!(
                f,
                "  capture    {} packets, {} bytes",
                capture.packets, capture.bytes
            )?;
        }
        if let Some(matches) = self.matches_published_q1 {
            let word = if matches {
                "as the TPC-H specification publishes"
            } else {
                "not as published"
            };
            writeln!(f, "  Q1         {word}")?;
        }
        for problem in &self.problems {
            writeln!(f, "  problem    {problem}")?;
        }
        Ok(())
    }

    /// The runs over flows whose producers do not choose.
    fn show_fan_out(&self, f: &mut fmt::Formatter<'_>, virtually: &str) -> fmt::Result {
        if let Some(balanced) = &self.balanced {
            writeln!(f, "  balanced   {}", balanced.in_words(virtually))?;
        }
        if let Some(replicated) = &self.replicated {
            writeln!(f, "  replicated {}", replicated.in_words(virtually))?;
        }
        for left_out in &self.left_out {
            writeln!(f, "  left out   {left_out}")?;
        }
        Ok(())
    }

    /// Both answers, narrow enough for a terminal; the JSON form has every column.
    fn show_answers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.result.is_none() {
            return Ok(());
        }
        writeln!(
            f,
            "\nQ1, the pricing summary of line items by return flag and status:"
        )?;
        writeln!(
            f,
            "  {:<4} {:>15} {:>20} {:>20} {:>10}",
            "", "quantity", "discounted price", "with tax", "lines"
        )?;
        for row in &self.q1 {
            writeln!(
                f,
                "  {:<4} {:>15} {:>20} {:>20} {:>10}",
                format!("{} {}", row.return_flag, row.line_status),
                row.sum_quantity,
                row.sum_discounted_price,
                row.sum_charge,
                row.count
            )?;
        }
        writeln!(
            f,
            "\nLine items joined with the orders of 1995, by order priority:"
        )?;
        writeln!(f, "  {:<20} {:>20} {:>10}", "", "revenue", "lines")?;
        for row in &self.join {
            writeln!(
                f,
                "  {:<20} {:>20} {:>10}",
                row.order_priority, row.revenue, row.lines
            )?;
        }
        writeln!(f)
    }
}

fn article(mode: &str) -> String {
    let article = if mode.starts_with('e') { "an" } else { "a" };
    format!("{article} {mode}")
}
