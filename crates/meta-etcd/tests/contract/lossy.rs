//! A way to etcd that loses requests or answers on command.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::thread;

/// What becomes of requests and answers from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loses {
    Nothing,
    Requests,
    Answers,
}

/// Listens on a port of its own and passes on what it does not lose. It ends with the test's process.
pub(crate) struct LossyWay {
    address: SocketAddr,
    loses: Arc<AtomicU8>,
}

impl LossyWay {
    pub(crate) fn to(target: String) -> LossyWay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let loses = Arc::new(AtomicU8::new(Loses::Nothing as u8));
        let shared = Arc::clone(&loses);
        thread::spawn(move || {
            for here in listener.incoming().map_while(Result::ok) {
                let (target, loses) = (target.clone(), Arc::clone(&shared));
                thread::spawn(move || {
                    let Ok(there) = TcpStream::connect(target) else { return };
                    let back = (there.try_clone().expect("a socket"), here.try_clone().expect("a socket"));
                    let loses_answers = Arc::clone(&loses);
                    thread::spawn(move || pass(back.0, back.1, &loses_answers, Loses::Answers));
                    pass(here, there, &loses, Loses::Requests);
                });
            }
        });
        LossyWay { address, loses }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn lose(&self, loses: Loses) {
        self.loses.store(loses as u8, SeqCst);
    }
}

/// Passes bytes on until they are to be lost: then the connection ends.
fn pass(mut from: TcpStream, mut to: TcpStream, loses: &AtomicU8, here: Loses) {
    let mut bytes = [0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if loses.load(SeqCst) == here as u8 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}
