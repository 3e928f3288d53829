internal import CCallProto
internal import CallCore

// What a shard writes (journal.proto). An entry that this version does not know is an error: who cannot read all
// of a shard's history must not continue it.

enum JournalRecordMapping: Mapping {
  static var blank: JournalRecord {
    JournalRecord(epoch: 0, number: 0, writer: "", at: Timestamp(microseconds: 0), entries: [])
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__JournalRecord>?) {
    callmesh__v1__journal_record__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: JournalEntryMapping.format(value.entries), .kept)
    c.number(&value.epoch, &m.epoch)
    c.number(&value.number, &m.number)
    try c.text(&value.writer, &m.writer, "writer")
    c.time(&value.at, microseconds: &m.at_us)
    try c.array(
      JournalEntryMapping.self, &value.entries, &m.n_entries, &m.entries)
    c.flag(&value.released, &m.released)
    // 0: not said.
    var follows = value.follows.map { $0 &+ 1 } ?? 0
    c.number(&follows, &m.follows)
    if C.reads { value.follows = follows == 0 ? nil : follows - 1 }
  }
}

enum CheckpointMapping: Mapping {
  static var blank: Checkpoint { Checkpoint(sequence: 0, epoch: 0, entries: []) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Checkpoint>?) {
    callmesh__v1__checkpoint__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: JournalEntryMapping.format(value.entries), .kept)
    c.number(&value.sequence, &m.sequence)
    c.number(&value.epoch, &m.epoch)
    try c.array(
      JournalEntryMapping.self, &value.entries, &m.n_entries, &m.entries)
  }
}

enum RegistrationMapping: Mapping {
  static var blank: Registration {
    let none = Timestamp(microseconds: 0)
    return Registration(
      user: UserKey(app: "", user: ""), device: "", request: RegistrationRequest(),
      registeredAt: none, seenAt: none, capabilities: [])
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__RegistrationRecord>?) {
    callmesh__v1__registration_record__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.user(&value.user, &m.app, &m.user)
    try c.device(&value.device, &m.device)
    try c.message(RegisterMapping.self, &value.request, &m.registration, "registration")
    c.time(&value.registeredAt, microseconds: &m.registered_at_us)
    c.time(&value.seenAt, microseconds: &m.seen_at_us)
    var (known, capabilities) = (true, value.capabilities.rawValue)
    c.flag(&known, &m.capabilities_known)
    c.number(&capabilities, &m.capabilities)
    guard C.reads else { return }
    // Those of before are derived now.
    value = Registration(
      user: value.user, device: value.device, request: value.request,
      registeredAt: value.registeredAt, seenAt: value.seenAt,
      capabilities: known ? PushCapabilities(rawValue: capabilities) : nil)
  }
}

// MARK: Entries

private enum JournalEntryMapping: Mapping {
  static var blank: JournalEntry { JournalEntry(call: CallID(high: 0, low: 0), change: .settled) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__JournalEntry>?) {
    callmesh__v1__journal_entry__init(m)
  }

  /// The lowest that a reader must know.
  static func format(_ entries: [JournalEntry]) -> UInt32 {
    for entry in entries {
      if case .pushed = entry.change { return ClusterCodec.pushFormat }
    }
    return ClusterCodec.firstFormat
  }

  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    var change = Choice(c, m.change_case, value.change.member)
    try change.message(
      &value.change, PlacedMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PLACED, &m.placed,
      { .placed($0) },
      { if case .placed(let facts) = $0 { facts } else { nil } })
    try change.message(
      &value.change, AnsweredMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ANSWERED,
      &m.answered,
      { .answered($0) },
      { if case .answered(let facts) = $0 { facts } else { nil } })
    try change.message(
      &value.change, EndedMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ENDED, &m.ended,
      { .ended($0) },
      { if case .ended(let facts) = $0 { facts } else { nil } })
    try change.message(
      &value.change, callmesh__v1__settled_entry__init, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SETTLED,
      &m.settled, is: .settled)
    try change.message(
      &value.change, SignalEntryMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SIGNAL, &m.signal,
      { .signal(fromCaller: $0, $1, $2) },
      {
        if case .signal(let caller, let device, let signal) = $0 {
          (caller, device, signal)
        } else {
          nil
        }
      })
    try legs(&change, &value.change, &m)
    try change.message(
      &value.change, LostMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CALLER_LOST,
      &m.caller_lost,
      { .callerLost(until: $0) },
      { if case .callerLost(let until) = $0 { .some(until) } else { nil } })
    try change.message(
      &value.change, LostMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_WINNER_LOST,
      &m.winner_lost,
      { .winnerLost(until: $0) },
      { if case .winnerLost(let until) = $0 { .some(until) } else { nil } })
    try change.end(&m.change_case, "change")
  }

  private static func legs<C: Coder>(
    _ change: inout Choice<C>, _ value: inout JournalEntry.Change,
    _ m: inout Callmesh__V1__JournalEntry
  ) throws(C.Failure) {
    try change.message(
      &value, LegJoinedMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_JOINED, &m.leg_joined,
      { .legJoined($0) },
      { if case .legJoined(let party) = $0 { party } else { nil } })
    try change.message(
      &value, AlertingMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ALERTING, &m.alerting,
      { .alerting($0) },
      { if case .alerting(let device) = $0 { device } else { nil } })
    try change.message(
      &value, LegEndedMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_ENDED, &m.leg_ended,
      { .legEnded($0, $1, at: $2) },
      { if case .legEnded(let device, let end, let at) = $0 { (device, end, at) } else { nil } })
    try change.message(
      &value, ConnectedMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CONNECTED, &m.connected,
      { .connected(caller: $0) },
      { if case .connected(let caller) = $0 { caller } else { nil } })
    try change.message(
      &value, PushedMapping.self, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PUSHED, &m.pushed,
      { .pushed($0, $1) },
      { if case .pushed(let device, let purpose) = $0 { (device, purpose) } else { nil } })
  }
}

extension JournalEntry.Change {
  fileprivate var member: Callmesh__V1__JournalEntry__ChangeCase {
    switch self {
    case .placed: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PLACED
    case .answered: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ANSWERED
    case .ended: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ENDED
    case .settled: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SETTLED
    case .signal: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SIGNAL
    case .legJoined: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_JOINED
    case .alerting: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ALERTING
    case .legEnded: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_ENDED
    case .connected: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CONNECTED
    case .pushed: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PUSHED
    case .callerLost: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CALLER_LOST
    case .winnerLost: CALLMESH__V1__JOURNAL_ENTRY__CHANGE_WINNER_LOST
    }
  }
}

/// Who takes part; not the `Party` of device.proto.
private enum DeviceMapping: Mapping {
  static var blank: Party { PartyMapping.blank }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Device>?) {
    callmesh__v1__device__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.text(&value.user, &m.user, "device.user")
    try c.device(&value.device, &m.device, "device.device")
    try c.text(&value.deviceName, &m.name, "device.name")
  }
}

private enum PlacedMapping: Mapping {
  static var blank: PlacedFacts {
    let none = Timestamp(microseconds: 0)
    return PlacedFacts(
      callee: UserKey(app: "", user: ""), caller: PartyMapping.blank, placedAt: none,
      deadline: none, video: false, description: "", headers: [], legs: [], fingerprint: 0)
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PlacedEntry>?) {
    callmesh__v1__placed_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.user(&value.callee, &m.app, &m.callee)
    try c.message(DeviceMapping.self, &value.caller, &m.caller, "caller")
    c.time(&value.placedAt, microseconds: &m.placed_at_us)
    c.time(&value.deadline, microseconds: &m.deadline_us)
    c.flag(&value.video, &m.video)
    try c.text(&value.description, &m.description, "description")
    try c.array(HeaderMapping.self, &value.headers, &m.n_headers, &m.headers)
    try c.array(DeviceMapping.self, &value.legs, &m.n_legs, &m.legs)
    c.number(&value.fingerprint, &m.fingerprint)
    try c.array(
      SignalMarkMapping.self, &value.signalsTaken, &m.n_signals_taken,
      &m.signals_taken)
  }
}

private enum SignalMarkMapping: Mapping {
  static var blank: SignalMark {
    SignalMark(fromCaller: false, device: "", request: 0, content: 0)
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__SignalMark>?) {
    callmesh__v1__signal_mark__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.flag(&value.fromCaller, &m.from_caller)
    try c.device(&value.device, &m.device)
    c.number(&value.request, &m.request)
    c.number(&value.content, &m.content)
  }
}

private enum AnsweredMapping: Mapping {
  static var blank: AnsweredFacts {
    let none = Timestamp(microseconds: 0)
    return AnsweredFacts(by: PartyMapping.blank, at: none, description: "", connectDeadline: none)
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AnsweredEntry>?) {
    callmesh__v1__answered_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.message(DeviceMapping.self, &value.by, &m.by, "by")
    c.time(&value.at, microseconds: &m.at_us)
    try c.text(&value.description, &m.description, "description")
    c.time(&value.connectDeadline, microseconds: &m.connect_deadline_us)
  }
}

private enum EndedMapping: Mapping {
  static var blank: EndedFacts {
    EndedFacts(reason: .failed, by: nil, at: Timestamp(microseconds: 0), missed: false)
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__EndedEntry>?) {
    callmesh__v1__ended_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.known(&value.reason, &m.reason, "reason")
    try c.optional(DeviceMapping.self, &value.by, &m.by)
    c.time(&value.at, microseconds: &m.at_us)
    c.flag(&value.missed, &m.missed)
  }
}

private enum SignalEntryMapping: Mapping {
  typealias Value = (fromCaller: Bool, device: DeviceID, signal: Signal)
  static var blank: Value { (false, "", Signal(index: 0, kind: .candidate, body: "")) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__SignalEntry>?) {
    callmesh__v1__signal_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.flag(&value.fromCaller, &m.from_caller)
    try c.device(&value.device, &m.device)
    try c.known(&value.signal.kind, &m.kind, "kind")
    try c.text(&value.signal.body, &m.body, "body")
    c.number(&value.signal.index, &m.index)
    c.number(&value.signal.request, &m.request)
  }
}

private enum LegJoinedMapping: Mapping {
  static var blank: Party { PartyMapping.blank }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__LegJoinedEntry>?) {
    callmesh__v1__leg_joined_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.message(DeviceMapping.self, &value, &m.device, "device")
  }
}

private enum AlertingMapping: Mapping {
  static var blank: DeviceID { "" }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AlertingEntry>?) {
    callmesh__v1__alerting_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value, &m.device)
  }
}

private enum LegEndedMapping: Mapping {
  typealias Value = (device: DeviceID, end: LegEnd, at: Timestamp?)
  static var blank: Value { ("", .gone, nil) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__LegEndedEntry>?) {
    callmesh__v1__leg_ended_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try c.known(&value.end, &m.end, "end")
    c.time(&value.at, microseconds: &m.at_us)
  }
}

private enum ConnectedMapping: Mapping {
  static var blank: Bool { false }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__ConnectedEntry>?) {
    callmesh__v1__connected_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.flag(&value, &m.caller)
  }
}

private enum PushedMapping: Mapping {
  typealias Value = (device: DeviceID, purpose: PushPurpose)
  static var blank: Value { ("", .ring) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushedEntry>?) {
    callmesh__v1__pushed_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    var purpose = NumberedCase(rawValue: m.purpose)
    try c.known(&value.purpose, &purpose, "purpose")
    m.purpose = purpose.rawValue
  }
}

/// A case of an enum that the schema calls a number.
private struct NumberedCase: RawRepresentable {
  var rawValue: UInt32
}

private enum LostMapping: Mapping {
  static var blank: Timestamp? { nil }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__LostEntry>?) {
    callmesh__v1__lost_entry__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.time(&value, microseconds: &m.deadline_us)
  }
}
