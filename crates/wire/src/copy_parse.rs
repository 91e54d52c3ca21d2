//! Reading messages about copies of a log.

use crate::WireError;
use crate::copy::{
    APPEND, BEAT, CopyHello, DEPOSED, EPOCH, FENCED, FORGET, HAS, HAS_NOTHING, HOLDS, PROMISES, Place, READ,
    RESTART, SIZE, Tail, ToBackup, ToWriter,
};
use crate::layout::{CopyAnswerLayout, CopyBytesLayout, CopyHelloLayout, CopyTaskLayout};
use crate::message::Body;
use sidle_types::{LogId, NodeId};

impl<'b> Body<'b> {
    pub(crate) fn copy_hello(&self) -> Result<CopyHello, WireError> {
        let fixed = self.whole::<CopyHelloLayout>()?;
        Ok(CopyHello {
            log: LogId(fixed.log),
            epoch: fixed.epoch.get(),
            node: NodeId::from_bytes(fixed.node),
            incarnation: fixed.incarnation.get(),
            syncs: self.flag(fixed.syncs)?,
            reads: self.flag(fixed.reads)?,
        })
    }

    pub(crate) fn copy_task(&self) -> Result<ToBackup<'b>, WireError> {
        let (fixed, bytes) = self.split::<CopyTaskLayout>()?;
        let place = Place { file: fixed.file.get(), at: fixed.at.get() };
        let task = match fixed.what {
            APPEND if bytes.is_empty() => return Err(self.malformed("nothing to append")),
            APPEND if place.at.checked_add(bytes.len() as u64).is_none() => {
                return Err(self.malformed("bytes behind the largest file"));
            }
            APPEND => return Ok(ToBackup::Append { at: place, bytes }),
            RESTART => ToBackup::Restart,
            FORGET => ToBackup::Forget { first: place.file },
            EPOCH => ToBackup::Epoch(place.file),
            READ => ToBackup::Read(place),
            BEAT => ToBackup::Beat(place.file),
            _ => return Err(self.malformed("an unknown task")),
        };
        self.end(bytes).map(|()| task)
    }

    pub(crate) fn copy_answer(&self) -> Result<ToWriter<'b>, WireError> {
        let fixed = self.whole::<CopyAnswerLayout>()?;
        let written = Place { file: fixed.file.get(), at: fixed.at.get() };
        let synced = Place { file: fixed.synced_file.get(), at: fixed.synced_at.get() };
        let incarnation = fixed.number.get();
        let tail = Tail { end: written, check: fixed.check.get() };
        match fixed.what {
            HAS_NOTHING => Ok(ToWriter::Has { incarnation, tail: None, synced }),
            HAS => Ok(ToWriter::Has { incarnation, tail: Some(tail), synced }),
            HOLDS => Ok(ToWriter::Holds { written, synced }),
            DEPOSED => Ok(ToWriter::Deposed(fixed.number.get())),
            PROMISES => Ok(ToWriter::Promises(fixed.number.get())),
            FENCED => Ok(ToWriter::Fenced { incarnation, first: synced.file, tail, promised_us: synced.at }),
            SIZE => Ok(ToWriter::Size(fixed.number.get())),
            _ => Err(self.malformed("an unknown answer")),
        }
    }

    pub(crate) fn copy_bytes(&self) -> Result<ToWriter<'b>, WireError> {
        let (fixed, bytes) = self.split::<CopyBytesLayout>()?;
        let ends_file = self.flag(fixed.ends_file)?;
        Ok(ToWriter::Bytes { bytes, ends_file })
    }

    fn flag(&self, byte: u8) -> Result<bool, WireError> {
        match byte {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("neither yes nor no")),
        }
    }
}
