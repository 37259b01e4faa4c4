//! Bytes over a TCP connection, with TLS or without, every wait bounded by a deadline.
//!
//! The socket is non-blocking: waits use `poll`, so that a deadline covers any number of reads, and
//! a shutdown from another thread ends the wait.

use crate::ControlError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an end waits for the other side to close too. Otherwise data that the other side sent
/// meanwhile could cause a reset, which would lose the last bytes sent.
const LINGER: Duration = Duration::from_millis(200);

/// Why bytes were not transferred.
#[derive(Debug)]
pub(crate) enum Trouble {
    TimedOut,
    Ended,
    Tls(rustls::Error),
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::*;
        match error.kind() {
            ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected | UnexpectedEof => {
                Trouble::Ended
            }
            _ => Trouble::Io(error),
        }
    }
}

impl Trouble {
    /// Converts this to an error about `peer`, which took too long at `what` or ended `midway`.
    pub(crate) fn about(self, peer: &str, what: &'static str, midway: bool) -> ControlError {
        let peer = peer.to_string();
        match self {
            Trouble::TimedOut => ControlError::TimedOut { peer, what },
            Trouble::Ended => ControlError::Closed { peer, midway },
            Trouble::Io(error) => ControlError::Io { peer, error },
            Trouble::Tls(error) => tls_error(error, peer),
        }
    }
}

/// A connected socket, its TLS, and the state of its end.
pub(crate) struct Stream {
    socket: Arc<TcpStream>,
    tls: Option<Box<rustls::Connection>>,
}

impl Stream {
    pub(crate) fn new(
        socket: impl Into<Arc<TcpStream>>,
        tls: Option<rustls::Connection>,
    ) -> io::Result<Stream> {
        let socket = socket.into();
        socket.set_nonblocking(true)?;
        // Messages are small and answered: waiting to combine them with later ones would cost time.
        socket.set_nodelay(true)?;
        Ok(Stream {
            socket,
            tls: tls.map(Box::new),
        })
    }

    pub(crate) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether messages can be sent: the TLS handshake is done, or there is no TLS.
    pub(crate) fn can_talk(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// The other side's own certificate, once the handshake is done.
    pub(crate) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Performs the TLS handshake, if there is TLS.
    pub(crate) fn handshake(&mut self, deadline: Instant) -> Result<(), Trouble> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while tls.is_handshaking() {
            flush(tls, &self.socket, deadline)?;
            if !tls.is_handshaking() {
                break;
            }
            // Checked each time: bytes that arrive one by one must not evade the deadline.
            if Instant::now() >= deadline {
                return Err(Trouble::TimedOut);
            }
            if fill(tls, &self.socket, deadline)? == 0 {
                return Err(Trouble::Ended);
            }
        }
        flush(tls, &self.socket, deadline)
    }

    /// Reads the available bytes, at least one. Bytes that are available are read even after the
    /// deadline.
    pub(crate) fn read(&mut self, chunk: &mut [u8], deadline: Instant) -> Result<usize, Trouble> {
        let Some(tls) = &mut self.tls else {
            return loop {
                wait(&*self.socket, PollFlags::IN, deadline)?;
                match (&*self.socket).read(chunk) {
                    Ok(0) => break Err(Trouble::Ended),
                    Ok(len) => break Ok(len),
                    Err(error) if is_passing(&error) => {}
                    Err(error) => break Err(error.into()),
                }
            };
        };
        loop {
            match tls.reader().read(chunk) {
                Ok(0) => return Err(Trouble::Ended),
                Ok(len) => return Ok(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            fill(tls, &self.socket, deadline)?;
            flush(tls, &self.socket, deadline)?;
        }
    }

    /// Writes all of `bytes`.
    pub(crate) fn write_all(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            let len = match &mut self.tls {
                None => match (&*self.socket).write(bytes) {
                    Ok(0) => return Err(Trouble::Ended),
                    Ok(len) => len,
                    Err(error) if is_passing(&error) => {
                        wait(&*self.socket, PollFlags::OUT, deadline)?;
                        0
                    }
                    Err(error) => return Err(error.into()),
                },
                Some(tls) => {
                    // Accepts as much as its buffer holds; the buffer is empty again after the
                    // flush.
                    let len = tls.writer().write(bytes)?;
                    flush(tls, &self.socket, deadline)?;
                    len
                }
            };
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// Closes the connection such that sent bytes arrive. Takes at most twice the linger time.
    pub(crate) fn close(mut self) {
        let until = Instant::now() + LINGER;
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = flush(tls, &self.socket, until);
        }
        if self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let mut waste = [0; 4096];
        while Instant::now() < until && wait(&*self.socket, PollFlags::IN, until).is_ok() {
            match (&*self.socket).read(&mut waste) {
                Ok(1..) => {}
                Err(error) if is_passing(&error) => {}
                _ => return,
            }
        }
    }
}

/// Waits until `listener` has a connection. Returns whether there is one.
pub(crate) fn wait_incoming(listener: &TcpListener, deadline: Instant) -> io::Result<bool> {
    match wait(listener, PollFlags::IN, deadline) {
        Ok(()) => Ok(true),
        Err(Trouble::Io(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

/// Whether the operation should be retried.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Waits until `socket` is ready for `flags`, or has ended.
fn wait(socket: impl AsFd, flags: PollFlags, deadline: Instant) -> Result<(), Trouble> {
    let mut fds = [PollFd::new(&socket, flags)];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Err(Trouble::TimedOut),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Trouble::Io(error.into())),
        }
    }
}

/// Sends the bytes that TLS has to send.
fn flush(
    tls: &mut rustls::Connection,
    mut socket: &TcpStream,
    deadline: Instant,
) -> Result<(), Trouble> {
    while tls.wants_write() {
        match tls.write_tls(&mut socket) {
            Ok(0) => return Err(Trouble::Ended),
            Ok(_) => {}
            Err(error) if is_passing(&error) => wait(socket, PollFlags::OUT, deadline)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Passes bytes from the socket to TLS. Returns their number: 0 at the end.
fn fill(
    tls: &mut rustls::Connection,
    mut socket: &TcpStream,
    deadline: Instant,
) -> Result<usize, Trouble> {
    loop {
        wait(socket, PollFlags::IN, deadline)?;
        let len = match tls.read_tls(&mut socket) {
            Ok(len) => len,
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = tls.process_new_packets() {
            // The alert gives the other side the reason.
            let _ = flush(tls, socket, deadline);
            return Err(Trouble::Tls(error));
        }
        return Ok(len);
    }
}

/// Converts a TLS failure to an error for the user.
fn tls_error(error: rustls::Error, peer: String) -> ControlError {
    use AlertDescription as Alert;
    use CertificateError as Bad;
    let detail = match error {
        rustls::Error::InvalidCertificate(
            Bad::NotValidForName | Bad::NotValidForNameContext { .. },
        ) => "shows the certificate of somebody else".to_string(),
        rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "shows a certificate that is not of this rack's authority".to_string()
        }
        rustls::Error::InvalidCertificate(bad) => {
            format!("shows a certificate that does not hold ({bad})")
        }
        rustls::Error::NoCertificatesPresented => "shows no certificate".to_string(),
        rustls::Error::AlertReceived(
            Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
            | Alert::CertificateRequired,
        ) => "refused this side's key, which is not of its authority or not of the right name"
            .to_string(),
        error => {
            return ControlError::NotOurProtocol {
                peer,
                detail: error.to_string(),
            };
        }
    };
    ControlError::WrongKey { peer, detail }
}
