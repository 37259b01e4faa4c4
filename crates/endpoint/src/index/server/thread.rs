//! Server threads of endpoints.

use super::IndexServer;
use crate::rpc;
use rackweave_base::Instant;
use rackweave_verbs::Verbs;

/// One server thread of an endpoint; its owner polls it.
#[derive(Debug)]
pub struct ServerThread {
    /// The connections.
    pub rpc: rpc::Server,
    /// Executes the requests.
    pub service: IndexServer,
}

impl ServerThread {
    /// Executes received requests. True if there were any. The caller adds the elapsed time to the
    /// [meter](IndexServer::meter).
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> bool {
        let happened = self.service.advance(now, verbs);
        let served = self.rpc.poll(now, verbs, &mut self.service);
        self.service.flush(now, verbs);
        happened || served
    }

    /// Releases everything.
    pub fn close(self, verbs: &mut dyn Verbs) {
        self.service.close(verbs);
        self.rpc.close(verbs);
    }
}
