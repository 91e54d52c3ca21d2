//! HOTKEYS, and SIDLE.HEAT: which keys and slots of this node are hot.
//!
//! Both show what is always counted (crate `sidle-heat`). HOTKEYS has the forms of Redis 8.6; a session is of
//! this node alone.

use super::slot_stats::{owned_slots, slot_argument};
use crate::call::{Call, CommandResult, Flow};
use crate::shared::Gauges;
use crate::table::{CommandFlags, CommandSpec};
use sidle_commands::{ReplyError, parse_i64, reply_help};
use sidle_heat::{HeatReport, MOST_SECONDS, Metrics, Session, SessionOptions, SessionView, Summary};
use sidle_types::{SLOT_COUNT, Slot};

const HELP: CommandFlags = CommandFlags::LOADING.with(CommandFlags::STALE).with(CommandFlags::WITHOUT_LEASE);
const HOTKEYS: CommandFlags =
    CommandFlags::WITHOUT_LEASE.with(CommandFlags::ADMIN).with(CommandFlags::NOSCRIPT);
const SIDLE: CommandFlags = CommandFlags::WITHOUT_LEASE.with(CommandFlags::ADMIN).with(CommandFlags::STALE);

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("hotkeys", CommandFlags::NONE, SUBCOMMANDS).docs(
        "server",
        "8.6.0",
        "Depends on subcommand.",
        "A container for hotkeys tracking commands.",
    ),
    CommandSpec::new("sidle.heat", -1, SIDLE, heat).docs(
        "sidle",
        "0.1.0",
        "O(N) where N is the number of seconds",
        "Returns the hottest keys and slots of this node in the last seconds, as JSON.",
    ),
];

const SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new("hotkeys|start", -2, HOTKEYS, start).docs(
        "server",
        "8.6.0",
        "O(1)",
        "Starts hotkeys tracking.",
    ),
    CommandSpec::new("hotkeys|get", 2, HOTKEYS, get).docs(
        "server",
        "8.6.0",
        "O(K) where K is the number of hotkeys returned.",
        "Returns lists of top K hotkeys depending on metrics chosen in HOTKEYS START command.",
    ),
    CommandSpec::new("hotkeys|stop", 2, HOTKEYS, stop).docs(
        "server",
        "8.6.0",
        "O(1)",
        "Stops hotkeys tracking.",
    ),
    CommandSpec::new("hotkeys|reset", 2, HOTKEYS, reset).docs(
        "server",
        "8.6.0",
        "O(1)",
        "Release the resources used for hotkey tracking.",
    ),
    CommandSpec::new("hotkeys|help", 2, HELP, help).docs("server", "8.6.1", "O(1)", "Lists the subcommands."),
];

/// The seconds that SIDLE.HEAT looks at by default.
const DEFAULT_SECONDS: usize = 5;
/// The most keys, and slots, that it shows.
const SHOWN: usize = 64;

/// `SIDLE.HEAT [<seconds>]`.
fn heat(call: &mut Call<'_>) -> CommandResult {
    let seconds = match call.args[1..] {
        [] => DEFAULT_SECONDS,
        [seconds] => parse_i64(seconds)
            .and_then(|seconds| usize::try_from(seconds).ok())
            .filter(|seconds| (1..=MOST_SECONDS).contains(seconds))
            .ok_or(ReplyError::text("ERR give how many of the last seconds to look at: 1 to 60"))?,
        _ => return Err(ReplyError::WrongArity("sidle.heat")),
    };
    let report = HeatReport::new(call.ranges.node(), call.shared.heat.recent(seconds), SHOWN);
    let json = serde_json::to_string(&report).expect("a report is plain data");
    call.reply.bulk(json.as_bytes());
    Ok(Flow::Done)
}

/// The process's processor time in microseconds: in the program, and in the system.
fn processor_us(call: &Call<'_>) -> [u64; 2] {
    let gauges = &call.shared.gauges;
    [Gauges::read(&gauges.cpu_user_us), Gauges::read(&gauges.cpu_system_us)]
}

/// `HOTKEYS START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>] [SLOTS
/// <count> <slot> ...]`.
fn start(call: &mut Call<'_>) -> CommandResult {
    let is_active = |session: &mut Option<Session>| session.as_ref().is_some_and(Session::is_active);
    if call.shared.heat.with_session(call.now, is_active) {
        return Err(ReplyError::text("ERR hotkey tracking session already in progress"));
    }
    let (metrics, rest) = metrics(&call.args[2..])?;
    let options = options(call, metrics, rest)?;
    call.shared.heat.start_session(Session::new(options, call.now));
    call.reply.ok();
    Ok(Flow::Done)
}

/// A number of a range; else the error.
fn number(argument: &[u8], least: i64, most: i64, error: &'static str) -> Result<u64, ReplyError> {
    let number = parse_i64(argument).filter(|number| (least..=most).contains(number));
    number.map(|number| number as u64).ok_or(ReplyError::text(error))
}

/// The metrics, which come first, and the arguments behind them. Unknown ones are passed over beside known
/// ones, as in Redis.
fn metrics<'a>(args: &'a [&'a [u8]]) -> Result<(Metrics, &'a [&'a [u8]]), ReplyError> {
    let [word, count, rest @ ..] = args else {
        return Err(ReplyError::text("ERR METRICS parameter is required"));
    };
    if !word.eq_ignore_ascii_case(b"metrics") {
        return Err(ReplyError::text("ERR METRICS parameter is required"));
    }
    let count = number(count, 1, 2, "ERR METRICS count must be > 0 and <= 2")? as usize;
    let mut metrics = Metrics::default();
    for word in rest.iter().take(count) {
        let (metric, twice) = match word.to_ascii_lowercase().as_slice() {
            b"cpu" => (&mut metrics.cpu, "ERR METRICS CPU defined more than once!"),
            b"net" => (&mut metrics.net, "ERR METRICS NET defined more than once!"),
            _ => continue,
        };
        if std::mem::replace(metric, true) {
            return Err(ReplyError::text(twice));
        }
    }
    if rest.len() < count {
        let error = "ERR METRICS count does not match number of metric types provided";
        return Err(ReplyError::text(error));
    }
    if metrics == Metrics::default() {
        return Err(ReplyError::text("ERR METRICS no valid metrics passed. Supported: CPU|NET"));
    }
    Ok((metrics, &rest[count..]))
}

fn options(call: &Call<'_>, metrics: Metrics, mut rest: &[&[u8]]) -> Result<SessionOptions, ReplyError> {
    let mut options = SessionOptions {
        metrics,
        count: 10,
        duration_ms: 0,
        ratio: 1,
        slots: Vec::new(),
        processor_us: processor_us(call),
    };
    while let [word, value, more @ ..] = rest {
        rest = more;
        match word.to_ascii_lowercase().as_slice() {
            b"count" => {
                options.count = number(value, 1, 64, "ERR COUNT must be between 1 and 64")? as usize;
            }
            b"duration" => {
                let error = "ERR DURATION must be between 1 and 1000000";
                options.duration_ms = number(value, 1, 1_000_000, error)? * 1000;
            }
            b"sample" => {
                let error = "ERR SAMPLE ratio must be positive";
                options.ratio = number(value, 1, i64::from(i32::MAX), error)?;
            }
            b"slots" if options.slots.is_empty() => {
                let error = "ERR SLOTS count must be between 1 and 16384";
                let count = number(value, 1, i64::from(SLOT_COUNT), error)? as usize;
                let slots =
                    more.get(..count).ok_or(ReplyError::text("ERR not enough slot numbers provided"))?;
                options.slots = chosen_slots(call, slots)?;
                rest = &more[count..];
            }
            b"slots" => return Err(ReplyError::text("ERR SLOTS parameter already specified")),
            _ => return Err(ReplyError::text("ERR syntax error")),
        }
    }
    if rest.is_empty() { Ok(options) } else { Err(ReplyError::text("ERR syntax error")) }
}

/// Slots of this node, as runs.
fn chosen_slots(call: &Call<'_>, arguments: &[&[u8]]) -> Result<Vec<(Slot, Slot)>, ReplyError> {
    let owned: Vec<Slot> = owned_slots(call).iter().map(|owned| owned.slot).collect();
    let mut slots = Vec::new();
    for argument in arguments {
        let slot = slot_argument(argument)?;
        if owned.binary_search(&slot).is_err() {
            return Err(ReplyError::owned(format!("ERR slot {slot} not handled by this node")));
        }
        slots.push(slot);
    }
    slots.sort_unstable();
    if slots.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(ReplyError::text("ERR duplicate slot number"));
    }
    Ok(runs(slots))
}

/// Slots in order, as runs.
fn runs(slots: impl IntoIterator<Item = Slot>) -> Vec<(Slot, Slot)> {
    let mut runs: Vec<(Slot, Slot)> = Vec::new();
    for slot in slots {
        match runs.last_mut() {
            Some((_, last)) if last.number() + 1 == slot.number() => *last = slot,
            _ => runs.push((slot, slot)),
        }
    }
    runs
}

fn stop(call: &mut Call<'_>) -> CommandResult {
    let now = call.now;
    let has_stopped = call.shared.heat.with_session(now, |session| match session {
        Some(session) if session.is_active() => {
            session.stop(now);
            true
        }
        _ => false,
    });
    if has_stopped {
        call.reply.ok()
    } else {
        call.reply.null()
    }
    Ok(Flow::Done)
}

fn reset(call: &mut Call<'_>) -> CommandResult {
    let is_reset = call.shared.heat.with_session(call.now, |session| {
        let may = !session.as_ref().is_some_and(Session::is_active);
        if may {
            *session = None;
        }
        may
    });
    if !is_reset {
        return Err(ReplyError::text("ERR hotkey tracking session in progress, stop tracking first"));
    }
    call.reply.ok();
    Ok(Flow::Done)
}

/// One map in an array, so that the replies of several nodes can be joined.
fn get(call: &mut Call<'_>) -> CommandResult {
    let now = call.now;
    let view =
        call.shared.heat.with_session(now, |session| session.as_ref().map(|session| session.view(now)));
    let Some(view) = view else {
        call.reply.null();
        return Ok(Flow::Done);
    };
    let fields = fields(call, &view);
    call.reply.array(1);
    call.reply.map(fields.len());
    for (name, value) in fields {
        call.reply.bulk(name.as_bytes());
        match value {
            Field::Number(number) => call.reply.integer(number as i64),
            Field::Slots(runs) => {
                call.reply.array(runs.len());
                for (first, last) in runs {
                    let ends = [first, last];
                    let ends = if first == last { &ends[..1] } else { &ends[..] };
                    call.reply.array(ends.len());
                    ends.iter().for_each(|slot| call.reply.integer(i64::from(slot.number())));
                }
            }
            Field::Keys(keys) => {
                call.reply.array(2 * keys.len());
                for (key, amount) in keys {
                    call.reply.bulk(&key);
                    call.reply.integer(amount as i64);
                }
            }
        }
    }
    Ok(Flow::Done)
}

/// What a field of HOTKEYS GET is.
enum Field {
    Number(u64),
    Slots(Vec<(Slot, Slot)>),
    Keys(Vec<(Vec<u8>, u64)>),
}

/// The fields in Redis's order; which there are depends on the options.
fn fields(call: &Call<'_>, view: &SessionView) -> Vec<(&'static str, Field)> {
    let SessionOptions { metrics, count, ratio, ref slots, processor_us: before, .. } = view.options;
    let chose = !slots.is_empty();
    let slots = match chose {
        true => slots.clone(),
        false => runs(owned_slots(call).iter().map(|owned| owned.slot)),
    };
    let [user_us, system_us] = processor_us(call);
    let sampled = |amount: u64| amount / ratio;
    let hottest = |summary: &Summary, unit: u64| {
        let keys = summary.hottest().iter().take(count);
        let shown = keys.map(|hot| (hot.key.bytes().to_vec(), sampled(hot.at_least()) / unit));
        Field::Keys(shown.take_while(|(_, amount)| *amount > 0).collect())
    };
    let all = [
        (true, "tracking-active", Field::Number(u64::from(view.is_active))),
        (true, "sample-ratio", Field::Number(ratio)),
        (true, "selected-slots", Field::Slots(slots)),
        (
            chose && ratio > 1,
            "sampled-commands-selected-slots-us",
            Field::Number(sampled(view.chosen.nanoseconds) / 1000),
        ),
        (chose, "all-commands-selected-slots-us", Field::Number(view.chosen.nanoseconds / 1000)),
        (true, "all-commands-all-slots-us", Field::Number(view.all.nanoseconds / 1000)),
        (
            chose && ratio > 1,
            "net-bytes-sampled-commands-selected-slots",
            Field::Number(sampled(view.chosen.bytes())),
        ),
        (chose, "net-bytes-all-commands-selected-slots", Field::Number(view.chosen.bytes())),
        (true, "net-bytes-all-commands-all-slots", Field::Number(view.all.bytes())),
        (true, "collection-start-time-unix-ms", Field::Number(view.began.0)),
        (true, "collection-duration-ms", Field::Number(view.duration_ms)),
        (metrics.cpu, "total-cpu-time-user-ms", Field::Number(user_us.saturating_sub(before[0]) / 1000)),
        (metrics.cpu, "total-cpu-time-sys-ms", Field::Number(system_us.saturating_sub(before[1]) / 1000)),
        (metrics.net, "total-net-bytes", Field::Number(sampled(view.chosen.bytes()))),
        (metrics.cpu, "by-cpu-time-us", hottest(&view.by_nanoseconds, 1000)),
        (metrics.net, "by-net-bytes", hottest(&view.by_bytes, 1)),
    ];
    all.into_iter().filter(|(is_shown, ..)| *is_shown).map(|(_, name, field)| (name, field)).collect()
}

fn help(call: &mut Call<'_>) -> CommandResult {
    reply_help(
        &mut call.reply,
        "HOTKEYS",
        &[
            "GET",
            "    Return the keys that took most since START, and how much all took.",
            "RESET",
            "    Forget what was tracked. Stop first.",
            "START METRICS <count> [CPU] [NET] [COUNT <k>] [DURATION <seconds>] [SAMPLE <ratio>]",
            "      [SLOTS <count> <slot> ...]",
            "    Track the keys of this node that take most processor time (CPU) or bytes (NET).",
            "    COUNT: how many of them GET returns (10). DURATION: for how long (until STOP).",
            "    SAMPLE: return a <ratio>th of what they took (1). SLOTS: only keys of these slots.",
            "STOP",
            "    Stop tracking; GET still returns what was tracked.",
        ],
    );
    Ok(Flow::Done)
}
