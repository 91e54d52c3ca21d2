//! The control thread: whatever is neither a client's request nor moving data.

mod signals;

use crate::clock::Clock;
use crate::process;
use crate::start::StartError;
use crate::worker::WorkerLink;
use sidle_node::{ControlReply, ControlRequest, NodeParts};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};

/// How often workers are ticked and gauges are refreshed; Redis's `hz 10`.
const TICK: Duration = Duration::from_millis(100);

/// What a worker asks of the control thread.
#[derive(Debug)]
pub(crate) enum ControlCall {
    /// A client's request, to be answered.
    Request(ControlRequest, oneshot::Sender<ControlReply>),
    /// SHUTDOWN.
    Shutdown,
}

impl ControlCall {
    /// A request, and where its answer will come.
    pub(crate) fn new(request: ControlRequest) -> (ControlCall, oneshot::Receiver<ControlReply>) {
        let (sender, receiver) = oneshot::channel();
        (ControlCall::Request(request, sender), receiver)
    }
}

/// What the control thread works with.
pub(crate) struct ControlThread {
    /// What the node's threads share.
    pub(crate) parts: NodeParts,
    /// The workers.
    pub(crate) workers: Vec<Arc<WorkerLink>>,
    /// What workers ask.
    pub(crate) calls: mpsc::UnboundedReceiver<ControlCall>,
    /// The process's clock.
    pub(crate) clock: Clock,
}

impl ControlThread {
    /// Runs until the node is told to stop.
    pub(crate) fn run(mut self) -> Result<(), StartError> {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(async {
            let mut stop = signals::Stop::listen()?;
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tracing::info!("the node is ready");
            loop {
                tokio::select! {
                    signal = stop.requested() => {
                        tracing::info!("stopping: {signal}");
                        return Ok(());
                    }
                    call = self.calls.recv() => match call {
                        Some(ControlCall::Request(request, answer)) => {
                            let refusal = format!("ERR this node has no coordinator to ask for {request:?}");
                            // The client may be gone.
                            let _ = answer.send(ControlReply::Error(refusal));
                        }
                        Some(ControlCall::Shutdown) | None => {
                            tracing::info!("stopping: a client asked for it");
                            return Ok(());
                        }
                    },
                    _ = ticks.tick() => self.tick(),
                }
            }
        })
    }

    fn tick(&mut self) {
        self.clock.follow_wall_clock();
        process::refresh(&self.parts.shared.gauges);
        self.workers.iter().for_each(|worker| worker.wake());
    }
}
