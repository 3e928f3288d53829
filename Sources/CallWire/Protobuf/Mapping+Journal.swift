internal import CCallProto
internal import CallCore

// The records that a shard writes (journal.proto). An entry that this version does not know is an error: a node that
// cannot read all of a shard's history must not continue it.

extension Callmesh__V1__JournalRecord: Root {
  static var blank: JournalRecord {
    JournalRecord(epoch: 0, number: 0, writer: "", at: .zero, entries: [])
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__journal_record__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: Callmesh__V1__JournalEntry.format(value.entries), .kept)
    c.number(&value.epoch, &m.epoch)
    c.number(&value.number, &m.number)
    try c.text(&value.writer, &m.writer, "writer")
    c.time(&value.at, microseconds: &m.at_us)
    try c.array(&value.entries, &m.n_entries, &m.entries)
    c.flag(&value.released, &m.released)
    // 0: absent.
    var previous = value.previous.map { $0 &+ 1 } ?? 0
    c.number(&previous, &m.follows)
    if C.reads { value.previous = previous == 0 ? nil : previous - 1 }
  }
}

extension Callmesh__V1__Checkpoint: Root {
  static var blank: Checkpoint { Checkpoint(sequence: 0, epoch: 0, entries: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__checkpoint__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: Callmesh__V1__JournalEntry.format(value.entries), .kept)
    c.number(&value.sequence, &m.sequence)
    c.number(&value.epoch, &m.epoch)
    try c.array(&value.entries, &m.n_entries, &m.entries)
  }
}

extension Callmesh__V1__RegistrationRecord: Root {
  static var blank: Registration {
    Registration(
      user: .blank, device: "", request: RegistrationRequest(), registeredAt: .zero, seenAt: .zero,
      capabilities: [])
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__registration_record__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.user(&value.user, &m.app, &m.user)
    try c.device(&value.device, &m.device)
    var registration = HTTPBodies.Register(device: nil, request: value.request)
    try c.message(&registration, &m.registration, "registration")
    c.time(&value.registeredAt, microseconds: &m.registered_at_us)
    c.time(&value.seenAt, microseconds: &m.seen_at_us)
    var (known, capabilities) = (true, value.capabilities.rawValue)
    c.flag(&known, &m.capabilities_known)
    c.number(&capabilities, &m.capabilities)
    var hasWebhooks = value.hasWebhooks
    c.flag(&hasWebhooks, &m.webhooks)
    var standings = value.standings
    try c.array(&standings, &m.n_standings, &m.standings)
    guard C.reads else { return }
    // Those of before are derived now.
    value = Registration(
      user: value.user, device: value.device, request: registration.request,
      registeredAt: value.registeredAt, seenAt: value.seenAt,
      capabilities: known ? PushCapabilities(rawValue: capabilities) : nil)
    value.hasWebhooks = hasWebhooks
    value.standings = standings
  }
}

extension Callmesh__V1__TokenStanding: Mapping {
  static var blank: TokenStanding { TokenStanding(fingerprint: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__token_standing__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
    c.flag(&value.isProven, &m.proven)
    c.number(&value.refusals, &m.refusals)
    c.time(&value.refusedAt, microseconds: &m.refused_at_us)
  }
}

// MARK: Entries

extension Callmesh__V1__JournalEntry: Mapping {
  static var blank: JournalEntry { JournalEntry(call: .zero, change: .settled) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__journal_entry__init(m) }

  /// The lowest that a reader must know.
  static func format(_ entries: [JournalEntry]) -> UInt32 {
    var format = ClusterCodec.firstFormat
    for entry in entries {
      switch entry.change {
      case .pushed: format = max(format, ClusterCodec.pushFormat)
      case .moved: format = max(format, ClusterCodec.moveFormat)
      case .diverted(let facts) where facts.reason != .transferred:
        format = max(format, ClusterCodec.divertFormat)
      case .placed(let facts) where facts.callerRings != nil: return ClusterCodec.transferFormat
      case .diverted, .transferEnded: return ClusterCodec.transferFormat
      case .ended(let facts) where facts.reason == .transferred:
        return ClusterCodec.transferFormat
      default: break
      }
    }
    return format
  }

  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    if C.reads {
      value.change = try change(c, m)
    } else {
      m.change_case = try write(c, value.change, &m)
    }
  }

  private static func change<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> JournalEntry.Change {
    switch m.change_case {
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PLACED: return .placed(try c.read(m.placed))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ANSWERED: return .answered(try c.read(m.answered))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_MOVED: return .moved(try c.read(m.moved))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_DIVERTED: return .diverted(try c.read(m.diverted))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_TRANSFER_ENDED:
      return .transferEnded(try c.read(m.transfer_ended))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ENDED:
      let (facts, isRecorded) = try c.read(m.ended)
      return isRecorded ? .recorded : .ended(facts)
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SETTLED: return .settled
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SIGNAL:
      let (fromCaller, device, signal) = try c.read(m.signal)
      return .signal(fromCaller: fromCaller, device, signal)
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_JOINED: return .legJoined(try c.read(m.leg_joined))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ALERTING: return .alerting(try c.read(m.alerting))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_ENDED:
      let (device, end, at) = try c.read(m.leg_ended)
      return .legEnded(device, end, at: at)
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CONNECTED:
      return .connected(caller: try c.read(m.connected))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PUSHED:
      let (device, purpose) = try c.read(m.pushed)
      return .pushed(device, purpose)
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CALLER_LOST:
      return .callerLost(until: try c.read(m.caller_lost))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_WINNER_LOST:
      return .winnerLost(until: try c.read(m.winner_lost))
    default: throw c.failure(.unknownMember("change"))
    }
  }

  private static func write<C: Coder>(_ c: C, _ change: JournalEntry.Change, _ m: inout Self)
    throws(C.Failure) -> Callmesh__V1__JournalEntry__ChangeCase
  {
    switch change {
    case .placed(let facts):
      try c.write(facts, &m.placed, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PLACED)
    case .answered(let facts):
      try c.write(facts, &m.answered, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ANSWERED)
    case .moved(let facts):
      try c.write(facts, &m.moved, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_MOVED)
    case .diverted(let facts):
      try c.write(facts, &m.diverted, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_DIVERTED)
    case .transferEnded(let end):
      try c.write(end, &m.transfer_ended, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_TRANSFER_ENDED)
    case .ended(let facts):
      try c.write((facts, false), &m.ended, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ENDED)
    case .recorded:
      try c.write(
        (Callmesh__V1__EndedEntry.blank.facts, true), &m.ended,
        CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ENDED)
    case .settled: try c.write((), &m.settled, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SETTLED)
    case .signal(let fromCaller, let device, let signal):
      try c.write(
        (fromCaller, device, signal), &m.signal, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SIGNAL)
    case .legJoined(let party):
      try c.write(party, &m.leg_joined, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_JOINED)
    case .alerting(let device):
      try c.write(device, &m.alerting, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ALERTING)
    case .legEnded(let device, let end, let at):
      try c.write((device, end, at), &m.leg_ended, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_ENDED)
    case .connected(let caller):
      try c.write(caller, &m.connected, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CONNECTED)
    case .pushed(let device, let purpose):
      try c.write((device, purpose), &m.pushed, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PUSHED)
    case .callerLost(let until):
      try c.write(until, &m.caller_lost, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CALLER_LOST)
    case .winnerLost(let until):
      try c.write(until, &m.winner_lost, CALLMESH__V1__JOURNAL_ENTRY__CHANGE_WINNER_LOST)
    }
  }
}
