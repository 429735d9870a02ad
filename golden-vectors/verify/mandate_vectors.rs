//! An implementation of the frozen coordination format, version 0, and of the rules that all ports
//! share, which checks the golden vectors: standard library only, Rust 1.63 or newer. The layout
//! stands in ../README.md. The first part of the file may start a new port; only what follows "The
//! vectors" is about checking.
//!
//! ```text
//! rustc -O --edition 2021 mandate_vectors.rs && ./mandate_vectors ../v0/vectors.tsv
//! ```
//!
//! It prints each line as it computes it (bytes from the fields, fields from the bytes), so that a
//! right implementation prints what it read. What differs is named on standard error, and the exit
//! code is 0 only if nothing does.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Read, Write};
use std::process::ExitCode;

// The format

const FORMAT_VERSION: i16 = 0;
const MAX_NAME_BYTES: usize = 249;

/// A name is a `String`, which is well-formed UTF-8 and is compared as bytes.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Registration { role: String, member: String },
    Lease { role: String },
}

struct Registration {
    member: String,
    registered_at: i64,
}

struct Lease {
    member: String,
    token: Token,
    granted_at: i64,
    deadline: i64,
}

/// Says which part of the bytes is outside the format, at which byte it starts, and why.
struct Refused {
    part: String,
    offset: usize,
    reason: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "refused: {} at {}: {}",
            self.part, self.offset, self.reason
        )
    }
}

/// Reads a record from front to back.
struct Cursor<'a> {
    decoder: &'static str,
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(decoder: &'static str, data: &'a [u8]) -> Result<Self, Refused> {
        let mut cursor = Cursor {
            decoder,
            data,
            at: 0,
        };
        if cursor.int16("version")? != FORMAT_VERSION {
            return Err(cursor.refused("version", 0, "unknown-version"));
        }
        Ok(cursor)
    }

    fn refused(&self, field: &str, offset: usize, reason: &'static str) -> Refused {
        let part = format!("{}.{}", self.decoder, field);
        Refused {
            part,
            offset,
            reason,
        }
    }

    fn take(&mut self, field: &str, size: usize) -> Result<&'a [u8], Refused> {
        if size > self.data.len() - self.at {
            return Err(self.refused(field, self.at, "truncated"));
        }
        let part = &self.data[self.at..self.at + size];
        self.at += size;
        Ok(part)
    }

    fn array<const SIZE: usize>(&mut self, field: &str) -> Result<[u8; SIZE], Refused> {
        let mut array = [0; SIZE];
        array.copy_from_slice(self.take(field, SIZE)?);
        Ok(array)
    }

    fn int16(&mut self, field: &str) -> Result<i16, Refused> {
        Ok(i16::from_be_bytes(self.array(field)?))
    }

    fn int64(&mut self, field: &str) -> Result<i64, Refused> {
        Ok(i64::from_be_bytes(self.array(field)?))
    }

    fn name(&mut self, field: &str) -> Result<String, Refused> {
        let start = self.at;
        let length = self.int16(field)?;
        let size = match usize::try_from(length) {
            Err(_) => return Err(self.refused(field, start, "negative-length")),
            Ok(0) => return Err(self.refused(field, start, "empty-name")),
            Ok(size) if size > MAX_NAME_BYTES => {
                return Err(self.refused(field, start, "overlong-name"))
            }
            Ok(size) => size,
        };
        let name = std::str::from_utf8(self.take(field, size)?)
            .map_err(|_| self.refused(field, start + 2, "invalid-utf8"))?;
        Ok(name.to_owned())
    }

    fn end(&self) -> Result<(), Refused> {
        if self.at < self.data.len() {
            return Err(self.refused("end", self.at, "trailing-bytes"));
        }
        Ok(())
    }
}

fn decode_key(data: &[u8]) -> Result<Key, Refused> {
    let mut cursor = Cursor::new("key", data)?;
    let kind = cursor.int16("kind")?;
    if kind != 0 && kind != 1 {
        return Err(cursor.refused("kind", 2, "unknown-kind"));
    }
    let role = cursor.name("role")?;
    let key = if kind == 0 {
        let member = cursor.name("member")?;
        Key::Registration { role, member }
    } else {
        let start = cursor.at;
        match cursor.int16("member")? {
            0 => Key::Lease { role },
            1.. => return Err(cursor.refused("member", start, "lease-member")),
            _ => return Err(cursor.refused("member", start, "negative-length")),
        }
    };
    cursor.end()?;
    Ok(key)
}

fn decode_registration(data: &[u8]) -> Result<Registration, Refused> {
    let mut cursor = Cursor::new("registration", data)?;
    let member = cursor.name("member")?;
    let registered_at = cursor.int64("registered_at")?;
    cursor.end()?;
    Ok(Registration {
        member,
        registered_at,
    })
}

/// Takes any time, and a deadline before the grant.
fn decode_lease(data: &[u8]) -> Result<Lease, Refused> {
    let mut cursor = Cursor::new("lease", data)?;
    let member = cursor.name("member")?;
    let start = cursor.at;
    let producer_id = cursor.int64("producer_id")?;
    if producer_id < 0 {
        return Err(cursor.refused("producer_id", start, "negative-producer-id"));
    }
    let start = cursor.at;
    let producer_epoch = cursor.int16("producer_epoch")?;
    if producer_epoch < 0 {
        return Err(cursor.refused("producer_epoch", start, "negative-producer-epoch"));
    }
    let token = Token {
        producer_id,
        producer_epoch,
    };
    let granted_at = cursor.int64("granted_at")?;
    let deadline = cursor.int64("deadline")?;
    cursor.end()?;
    Ok(Lease {
        member,
        token,
        granted_at,
        deadline,
    })
}

/// The length and the bytes of a name.
fn encode_name(name: &str) -> Result<Vec<u8>, String> {
    match name.len() {
        0 => Err("empty-name".to_owned()),
        1..=MAX_NAME_BYTES => Ok([&(name.len() as i16).to_be_bytes(), name.as_bytes()].concat()),
        _ => Err("overlong-name".to_owned()),
    }
}

fn encode_key(key: &Key) -> Result<Vec<u8>, String> {
    let (kind, role, member) = match key {
        Key::Registration { role, member } => (0i16, role, encode_name(member)?),
        Key::Lease { role } => (1i16, role, vec![0, 0]),
    };
    let mut data = FORMAT_VERSION.to_be_bytes().to_vec();
    data.extend(kind.to_be_bytes());
    data.extend(encode_name(role)?);
    data.extend(member);
    Ok(data)
}

fn encode_registration(registration: &Registration) -> Result<Vec<u8>, String> {
    let mut data = FORMAT_VERSION.to_be_bytes().to_vec();
    data.extend(encode_name(&registration.member)?);
    data.extend(registration.registered_at.to_be_bytes());
    Ok(data)
}

fn encode_lease(lease: &Lease) -> Result<Vec<u8>, String> {
    if lease.token.producer_id < 0 || lease.token.producer_epoch < 0 {
        return Err("negative-token".to_owned());
    }
    let mut data = FORMAT_VERSION.to_be_bytes().to_vec();
    data.extend(encode_name(&lease.member)?);
    data.extend(lease.token.producer_id.to_be_bytes());
    data.extend(lease.token.producer_epoch.to_be_bytes());
    data.extend(lease.granted_at.to_be_bytes());
    data.extend(lease.deadline.to_be_bytes());
    Ok(data)
}

/// Whether a record with this value deletes its key: without a value, or with one of zero bytes.
fn is_tombstone(value: Option<&[u8]>) -> bool {
    value.unwrap_or_default().is_empty()
}

// The hash

/// Kafka's murmur2, which is signed.
fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let little_endian = |bytes: &[u8]| {
        let last_first = bytes.iter().rev();
        last_first.fold(0u32, |word, &byte| word << 8 | u32::from(byte))
    };
    let mut h = 0x9747_b28c ^ data.len() as u32;
    let words = data.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        let mut k = little_endian(word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        h = (h ^ little_endian(rest)).wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    (h ^ h >> 15) as i32
}

/// The partition of both kinds of records of a role. It never depends on the record's key.
fn partition(role: &str, partitions: i32) -> i32 {
    (murmur2(role.as_bytes()) & i32::MAX) % partitions
}

// The token

/// The pair minted by InitProducerId. The order of its fields is its order, which is for sorting:
/// it does not say which of two leaders came later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Token {
    producer_id: i64,
    producer_epoch: i16,
}

impl Token {
    /// Ranks below all tokens.
    const NONE: Token = Token {
        producer_id: -1,
        producer_epoch: -1,
    };

    fn parse(text: &str) -> Option<Token> {
        let (producer_id, producer_epoch) = text.split_once(':')?;
        Some(Token {
            producer_id: parse_digits(producer_id)?,
            producer_epoch: i16::try_from(parse_digits(producer_epoch)?).ok()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.producer_id, self.producer_epoch)
    }
}

/// Takes the one decimal text of each number from 0 on: ASCII digits, no sign, no leading zero.
fn parse_digits(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number >= 0 && number.to_string() == text).then_some(number)
}

// The record headers. They are outside the frozen format: only the TypeScript library writes them,
// other ports may leave them out.

/// The order of its fields is its order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Incarnation {
    birth: i64,
    registered_at: i64,
    random: [u8; 16],
}

fn encode_incarnation(incarnation: &Incarnation) -> Vec<u8> {
    let mut data = incarnation.random.to_vec();
    data.extend(incarnation.birth.to_be_bytes());
    data.extend(incarnation.registered_at.to_be_bytes());
    data
}

fn decode_incarnation(data: &[u8]) -> Option<Incarnation> {
    if data.len() != 32 {
        return None;
    }
    Some(Incarnation {
        random: data[..16].try_into().ok()?,
        birth: i64::from_be_bytes(data[16..24].try_into().ok()?),
        registered_at: i64::from_be_bytes(data[24..].try_into().ok()?),
    })
}

fn encode_term(term: i64) -> Vec<u8> {
    term.to_string().into_bytes()
}

fn decode_term(data: &[u8]) -> Option<i64> {
    parse_digits(std::str::from_utf8(data).ok()?)
}

// The fold: from committed records of one partition to the state of a role

struct LogRecord {
    offset: i64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

struct RosterEntry {
    member: String,
    offset: i64,
    registered_at: i64,
}

struct RoleState {
    /// With the offset of its record.
    lease: Option<(Lease, i64)>,
    /// In offset order.
    roster: Vec<RosterEntry>,
}

/// Keeps the record with the highest offset of each key. The member of a registration is the one
/// that its key names. It fails on a record that does not decode; a port should rather report it
/// and go on with the other keys.
fn fold(asked: &str, records: &[LogRecord]) -> Result<RoleState, Refused> {
    let mut newest: HashMap<Key, &LogRecord> = HashMap::new();
    for record in records {
        let key = decode_key(&record.key)?;
        let known = newest.entry(key).or_insert(record);
        if record.offset > known.offset {
            *known = record;
        }
    }
    let mut lease = None;
    let mut roster = Vec::new();
    for (key, record) in newest {
        let value = match record.value.as_deref() {
            Some(value) if !is_tombstone(Some(value)) => value,
            _ => continue,
        };
        match key {
            Key::Lease { role } if role == asked => {
                lease = Some((decode_lease(value)?, record.offset));
            }
            Key::Registration { role, member } if role == asked => roster.push(RosterEntry {
                member,
                offset: record.offset,
                registered_at: decode_registration(value)?.registered_at,
            }),
            _ => {}
        }
    }
    roster.sort_by_key(|entry| entry.offset);
    Ok(RoleState { lease, roster })
}

/// Whether the lease, expired or not, names the member.
fn is_holder(member: &str, lease: Option<&Lease>) -> bool {
    lease.map(|lease| lease.member.as_str()) == Some(member)
}

/// The place of an entry in the queue: how many others than the holder registered before it.
fn rank(entry: &RosterEntry, lease: Option<&Lease>, roster: &[RosterEntry]) -> usize {
    let before = roster.iter().filter(|other| other.offset < entry.offset);
    before
        .filter(|other| !is_holder(&other.member, lease))
        .count()
}

// The decision

enum Decision {
    Register,
    Hold { until: i64 },
    Challenge { since: i64 },
    Wait { until: i64 },
}

/// What a member does at an instant of its wall clock. `holds` is the token of the leadership that
/// it still has. Clocks only say when to challenge: that a deposed leader cannot write is up to the
/// broker. It fails if the slot is no i64, which times can be that others wrote.
fn decide(
    own_name: &str,
    holds: Option<Token>,
    lease: Option<&Lease>,
    roster: &[RosterEntry],
    now: i64,
    stagger_ms: i64,
) -> Result<Decision, String> {
    let own = match roster.iter().find(|entry| entry.member == own_name) {
        Some(own) => own,
        None => return Ok(Decision::Register),
    };
    let (anchor, own_rank) = match lease {
        Some(lease) if lease.member == own_name => {
            if now < lease.deadline && holds == Some(lease.token) {
                let until = lease.deadline;
                return Ok(Decision::Hold { until });
            }
            if now < lease.deadline {
                // The lease of an earlier life: mint again at once.
                return Ok(Decision::Challenge { since: now });
            }
            (lease.deadline, 0)
        }
        Some(held) => (held.deadline, rank(own, lease, roster)),
        None => (own.registered_at, rank(own, lease, roster)),
    };
    let slot = i128::from(anchor) + own_rank as i128 * i128::from(stagger_ms);
    let slot = i64::try_from(slot).map_err(|_| "the slot is no i64".to_owned())?;
    Ok(if now >= slot {
        Decision::Challenge { since: slot }
    } else {
        Decision::Wait { until: slot }
    })
}

// The vectors

/// The columns that belong on a line, or why it cannot be read.
type Recomputed = Result<Vec<String>, String>;

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.to_string()
    }
}

/// The columns between id and check as they should be, from those that are given.
fn recompute(file: &str, given: &[&str]) -> Recomputed {
    match file {
        "keys" => recompute_key(exactly(given)?),
        "registrations" => recompute_registration(exactly(given)?),
        "leases" => recompute_lease(exactly(given)?),
        "tombstones" => recompute_tombstone(exactly(given)?),
        "partitions" => recompute_partition(exactly(given)?),
        "tokens" => recompute_token(given),
        "malformed" => recompute_malformed(exactly(given)?),
        "headers" => recompute_header(given),
        "folds" => recompute_fold(exactly(given)?),
        "decisions" => recompute_decision(exactly(given)?),
        _ => Err("unknown kind of vector".to_owned()),
    }
}

fn recompute_key([kind, role, member, bytes]: [&str; 4]) -> Recomputed {
    let key = match (kind, member) {
        ("registration", _) => Key::Registration {
            role: name(role)?,
            member: name(member)?,
        },
        ("lease", "") => Key::Lease { role: name(role)? },
        _ => return Err("no key".to_owned()),
    };
    let encoded = encode_key(&key)?;
    let (kind, role, member) = match decode_key(&unhex(bytes)?)? {
        Key::Registration { role, member } => ("registration", role, member),
        Key::Lease { role } => ("lease", role, String::new()),
    };
    Ok(vec![kind.to_owned(), hex(role), hex(member), hex(encoded)])
}

fn recompute_registration([member, registered_at, bytes]: [&str; 3]) -> Recomputed {
    let encoded = encode_registration(&Registration {
        member: name(member)?,
        registered_at: number(registered_at)?,
    })?;
    let decoded = decode_registration(&unhex(bytes)?)?;
    Ok(vec![
        hex(decoded.member),
        decoded.registered_at.to_string(),
        hex(encoded),
    ])
}

fn recompute_lease([member, id, epoch, granted_at, deadline, bytes]: [&str; 6]) -> Recomputed {
    let encoded = encode_lease(&lease_of([member, id, epoch, granted_at, deadline])?)?;
    let mut columns = lease_fields(&decode_lease(&unhex(bytes)?)?);
    columns.push(hex(encoded));
    Ok(columns)
}

fn recompute_tombstone([given, _]: [&str; 2]) -> Recomputed {
    let value = unhex_value(given)?;
    let tombstone = is_tombstone(value.as_deref());
    Ok(vec![value_hex(&value), tombstone.to_string()])
}

fn recompute_partition([role, _, partitions, _]: [&str; 4]) -> Recomputed {
    let role = name(role)?;
    let partitions: i32 = number(partitions)?;
    if partitions < 1 {
        return Err("a topic has a partition at least".to_owned());
    }
    let partition = partition(&role, partitions);
    let hash = murmur2(role.as_bytes());
    Ok(vec![
        hex(role),
        hash.to_string(),
        partitions.to_string(),
        partition.to_string(),
    ])
}

fn recompute_token(given: &[&str]) -> Recomputed {
    let check = given[0].to_owned();
    match given[0] {
        "text" => {
            let [_, producer_id, producer_epoch, text]: [&str; 4] = exactly(given)?;
            let printed = Token {
                producer_id: number(producer_id)?,
                producer_epoch: number(producer_epoch)?,
            };
            let parsed = token(text)?;
            let (id, epoch) = (parsed.producer_id, parsed.producer_epoch);
            let text = hex(printed.to_string());
            Ok(vec![check, id.to_string(), epoch.to_string(), text])
        }
        "order" => {
            let [_, left, right, _]: [&str; 4] = exactly(given)?;
            let (left, right) = (token_or_none(left)?, token_or_none(right)?);
            let order = left.cmp(&right) as i32;
            let (left, right) = (hex(left.to_string()), hex(right.to_string()));
            Ok(vec![check, left, right, order.to_string()])
        }
        "refused" => {
            let [_, text]: [&str; 2] = exactly(given)?;
            let bytes = unhex(text)?;
            let sound = std::str::from_utf8(&bytes).ok().and_then(Token::parse);
            Ok(vec![check, refused_or_accepted(sound, &bytes)])
        }
        _ => Err("unknown check".to_owned()),
    }
}

fn recompute_malformed([decoder, bytes, _, _, _]: [&str; 5]) -> Recomputed {
    let data = unhex(bytes)?;
    let refused = match decoder {
        "key" => decode_key(&data).err(),
        "registration" => decode_registration(&data).err(),
        "lease" => decode_lease(&data).err(),
        _ => return Err("unknown decoder".to_owned()),
    };
    let (part, offset, reason) = match refused {
        Some(refused) => (refused.part, refused.offset.to_string(), refused.reason),
        None => ("accepted".to_owned(), "-".to_owned(), "-"),
    };
    let (decoder, reason) = (decoder.to_owned(), reason.to_owned());
    Ok(vec![decoder, hex(data), part, offset, reason])
}

fn recompute_header(given: &[&str]) -> Recomputed {
    let check = given[0].to_owned();
    match given[0] {
        "incarnation" => {
            let [_, random, birth, registered_at, bytes]: [&str; 5] = exactly(given)?;
            let encoded = encode_incarnation(&Incarnation {
                birth: number(birth)?,
                registered_at: number(registered_at)?,
                random: unhex(random)?
                    .try_into()
                    .map_err(|_| "not 16 random bytes".to_owned())?,
            });
            let decoded = incarnation(bytes)?;
            let (birth, registered_at) = (decoded.birth, decoded.registered_at);
            Ok(vec![
                check,
                hex(decoded.random),
                birth.to_string(),
                registered_at.to_string(),
                hex(encoded),
            ])
        }
        "incarnation-refused" => {
            let [_, bytes]: [&str; 2] = exactly(given)?;
            let data = unhex(bytes)?;
            let column = refused_or_accepted(decode_incarnation(&data), &data);
            Ok(vec![check, column])
        }
        "incarnation-order" => {
            let [_, left, right, _]: [&str; 4] = exactly(given)?;
            let (left, right) = (incarnation(left)?, incarnation(right)?);
            let order = left.cmp(&right) as i32;
            Ok(vec![
                check,
                hex(encode_incarnation(&left)),
                hex(encode_incarnation(&right)),
                order.to_string(),
            ])
        }
        "term" => {
            let [_, term, bytes]: [&str; 3] = exactly(given)?;
            let encoded = encode_term(number(term)?);
            let decoded = decode_term(&unhex(bytes)?).ok_or_else(|| "no term".to_owned())?;
            Ok(vec![check, decoded.to_string(), hex(encoded)])
        }
        "term-refused" => {
            let [_, bytes]: [&str; 2] = exactly(given)?;
            let data = unhex(bytes)?;
            Ok(vec![check, refused_or_accepted(decode_term(&data), &data)])
        }
        _ => Err("unknown check".to_owned()),
    }
}

fn recompute_fold([rule, role, records, _, _]: [&str; 5]) -> Recomputed {
    let role = name(role)?;
    let mut parsed = Vec::new();
    let mut printed = Vec::new();
    for [offset, key, value] in list(records)? {
        let record = LogRecord {
            offset: number(offset)?,
            key: unhex(key)?,
            value: unhex_value(value)?,
        };
        let (key, value) = (hex(&record.key), value_hex(&record.value));
        printed.push(format!("{},{},{}", record.offset, key, value));
        parsed.push(record);
    }
    in_order(parsed.iter().map(|record| record.offset))?;
    let state = fold(&role, &parsed)?;
    let lease = state.lease.as_ref().map(|(lease, _)| lease);
    let lease_text = match &state.lease {
        Some((lease, offset)) => format!("{},{}", lease_fields(lease).join(","), offset),
        None => "-".to_owned(),
    };
    let mut roster = Vec::new();
    for entry in &state.roster {
        let rank = match is_holder(&entry.member, lease) {
            true => "-".to_owned(),
            false => rank(entry, lease, &state.roster).to_string(),
        };
        roster.push(format!("{},{}", roster_fields(entry), rank));
    }
    Ok(vec![
        rule.to_owned(),
        hex(role),
        printed.join(";"),
        lease_text,
        roster.join(";"),
    ])
}

fn recompute_decision(given: [&str; 9]) -> Recomputed {
    let [rule, own_name, holds, lease, roster, now, stagger_ms, _, _] = given;
    let own_name = name(own_name)?;
    let holds = match holds {
        "-" => None,
        text => Some(token(text)?),
    };
    let lease = match lease {
        "-" => None,
        text => Some(lease_of(exactly(&split(text, ','))?)?),
    };
    let mut entries = Vec::new();
    for [member, offset, registered_at] in list(roster)? {
        entries.push(RosterEntry {
            member: name(member)?,
            offset: number(offset)?,
            registered_at: number(registered_at)?,
        });
    }
    in_order(entries.iter().map(|entry| entry.offset))?;
    let members: HashSet<&str> = entries.iter().map(|entry| entry.member.as_str()).collect();
    if members.len() < entries.len() {
        return Err("a member twice in the roster".to_owned());
    }
    let (now, stagger_ms): (i64, i32) = (number(now)?, number(stagger_ms)?);
    let (held, stagger) = (lease.as_ref(), i64::from(stagger_ms));
    let decision = decide(&own_name, holds, held, &entries, now, stagger)?;
    let (decision, instant) = match decision {
        Decision::Register => ("register", "-".to_owned()),
        Decision::Hold { until } => ("hold", until.to_string()),
        Decision::Challenge { since } => ("challenge", since.to_string()),
        Decision::Wait { until } => ("wait", until.to_string()),
    };
    let roster: Vec<String> = entries.iter().map(roster_fields).collect();
    Ok(vec![
        rule.to_owned(),
        hex(own_name),
        holds.map_or("-".to_owned(), |token| hex(token.to_string())),
        lease.map_or("-".to_owned(), |lease| lease_fields(&lease).join(",")),
        roster.join(";"),
        now.to_string(),
        stagger_ms.to_string(),
        decision.to_owned(),
        instant,
    ])
}

// Columns to values and back

fn exactly<'a, const COUNT: usize>(texts: &[&'a str]) -> Result<[&'a str; COUNT], String> {
    let found = texts.len();
    texts
        .try_into()
        .map_err(|_| format!("{} columns or fields where {} belong", found, COUNT))
}

fn split(text: &str, separator: char) -> Vec<&str> {
    text.split(separator).collect()
}

/// A column's elements, each split into its fields.
fn list<const COUNT: usize>(column: &str) -> Result<Vec<[&str; COUNT]>, String> {
    if column.is_empty() {
        return Ok(Vec::new());
    }
    let elements = column.split(';');
    elements
        .map(|element| exactly(&split(element, ',')))
        .collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("no number: {}", text))
}

/// Fails unless each offset comes after the one before it.
fn in_order(offsets: impl Iterator<Item = i64>) -> Result<(), String> {
    let mut before = None;
    for offset in offsets {
        if before >= Some(offset) {
            return Err("not in the order of offsets".to_owned());
        }
        before = Some(offset);
    }
    Ok(())
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 => {
            let pairs = digits.chunks_exact(2);
            Ok(pairs.map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
        }
        _ => Err(format!("not hex: {}", text)),
    }
}

fn unhex_value(text: &str) -> Result<Option<Vec<u8>>, String> {
    match text {
        "-" => Ok(None),
        text => Ok(Some(unhex(text)?)),
    }
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref().iter();
    bytes.map(|byte| format!("{:02x}", byte)).collect()
}

fn value_hex(value: &Option<Vec<u8>>) -> String {
    value.as_ref().map_or("-".to_owned(), hex)
}

fn name(text: &str) -> Result<String, String> {
    let name = String::from_utf8(unhex(text)?).map_err(|_| "invalid-utf8".to_owned())?;
    encode_name(&name)?;
    Ok(name)
}

fn token(text: &str) -> Result<Token, String> {
    let text = String::from_utf8(unhex(text)?).map_err(|_| "no token".to_owned())?;
    Token::parse(&text).ok_or_else(|| "no token".to_owned())
}

fn token_or_none(text: &str) -> Result<Token, String> {
    if unhex(text)? == Token::NONE.to_string().as_bytes() {
        return Ok(Token::NONE);
    }
    token(text)
}

fn incarnation(text: &str) -> Result<Incarnation, String> {
    decode_incarnation(&unhex(text)?).ok_or_else(|| "no incarnation".to_owned())
}

fn lease_of([member, id, epoch, granted_at, deadline]: [&str; 5]) -> Result<Lease, String> {
    Ok(Lease {
        member: name(member)?,
        token: Token {
            producer_id: number(id)?,
            producer_epoch: number(epoch)?,
        },
        granted_at: number(granted_at)?,
        deadline: number(deadline)?,
    })
}

fn lease_fields(lease: &Lease) -> Vec<String> {
    vec![
        hex(&lease.member),
        lease.token.producer_id.to_string(),
        lease.token.producer_epoch.to_string(),
        lease.granted_at.to_string(),
        lease.deadline.to_string(),
    ]
}

fn roster_fields(entry: &RosterEntry) -> String {
    let member = hex(&entry.member);
    format!("{},{},{}", member, entry.offset, entry.registered_at)
}

fn refused_or_accepted<T>(accepted: Option<T>, given: &[u8]) -> String {
    match accepted {
        Some(_) => "accepted".to_owned(),
        None => hex(given),
    }
}

// The driver

/// One character for each byte, so that a wrong byte is a wrong character.
fn to_text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn to_bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| character as u8).collect()
}

/// The columns, and then their hash.
fn line(columns: &[String]) -> String {
    let text = columns.join("\t");
    let hash = murmur2(&to_bytes(&text));
    format!("{}\t{}", text, hash)
}

/// What belongs on the line of a vector.
fn recompute_line(given: &str) -> Result<String, String> {
    let columns = split(given, '\t');
    if columns.len() < 3 {
        return Err("too few columns".to_owned());
    }
    let (id, rest) = (columns[0], &columns[1..columns.len() - 1]);
    let mut printed = vec![id.to_owned()];
    printed.extend(recompute(split(id, '/')[0], rest)?);
    Ok(line(&printed))
}

/// Names the first column, the id being 1, in which two lines differ.
fn first_difference(printed: &str, given: &str) -> String {
    let (p, g) = (split(printed, '\t'), split(given, '\t'));
    if p.len() != g.len() {
        return format!("printed {} columns, given {}", p.len(), g.len());
    }
    match (0..p.len()).find(|&i| p[i] != g[i]) {
        Some(i) => format!("column {}: printed {}, given {}", i + 1, p[i], g[i]),
        None => "equal".to_owned(),
    }
}

/// The recomputed lines, and a report of what differs and what cannot be read, which is empty if
/// all was equal.
fn check(input: &str) -> (Vec<String>, Vec<String>, String) {
    let mut report = Vec::new();
    let mut lines = split(input, '\n');
    if lines.last() == Some(&"") {
        lines.pop();
    } else {
        report.push("last line: has no end".to_owned());
    }
    let vectors = lines.get(1..).unwrap_or(&[]);
    let count = vectors.len().to_string();
    let first = line(&["vectors".to_owned(), FORMAT_VERSION.to_string(), count]);
    match lines.first() {
        None => report.push("first line: missing".to_owned()),
        Some(given) if *given != first => {
            report.push(format!("first line: {}", first_difference(&first, given)));
        }
        _ => {}
    }
    let mut output = vec![first];
    let mut differ = 0;
    for given in vectors {
        let id = split(given, '\t')[0];
        match recompute_line(given) {
            Err(fault) => {
                differ += 1;
                report.push(format!("{}: not readable: {}", id, fault));
            }
            Ok(printed) => {
                if printed != *given {
                    differ += 1;
                    report.push(format!("{}: {}", id, first_difference(&printed, given)));
                }
                output.push(printed);
            }
        }
    }
    let summary = format!("{} vectors, {} differ", vectors.len(), differ);
    (output, report, summary)
}

fn run() -> io::Result<bool> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let mut input = Vec::new();
    match arguments.as_slice() {
        [] => io::stdin().read_to_end(&mut input)?,
        [file] => std::fs::File::open(file)?.read_to_end(&mut input)?,
        _ => {
            let usage = "usage: mandate_vectors [FILE]";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, usage));
        }
    };
    let (output, report, summary) = check(&to_text(&input));
    for printed in &output {
        io::stdout().write_all(&to_bytes(&format!("{}\n", printed)))?;
    }
    io::stdout().flush()?;
    for said in report.iter().chain([&summary]) {
        writeln!(io::stderr(), "{}", said)?;
    }
    Ok(report.is_empty())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Standard error may be what failed, so this can only be tried.
            let _ = writeln!(io::stderr(), "{}", error);
            ExitCode::FAILURE
        }
    }
}
