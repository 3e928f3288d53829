internal import CCallProto
internal import CallCore

/// What a shard wrote. An entry that this version does not know is an error: who cannot read all of
/// a shard's history must not continue it.
extension Unpacker {
  /// Of what is kept: it always says its format.
  static func checkKept(format: UInt32) throws(Fault) {
    guard format > 0 else { throw .field("format") }
    guard format <= ClusterCodec.format else { throw .laterFormat(format) }
  }

  static func journalRecord(
    _ message: UnsafeMutablePointer<Callmesh__V1__JournalRecord>
  ) throws(Fault) -> JournalRecord {
    try checkKept(format: message.pointee.format)
    return JournalRecord(
      epoch: message.pointee.epoch, number: message.pointee.number,
      writer: try text(message.pointee.writer, "writer"),
      at: Timestamp(microseconds: message.pointee.at_us),
      entries: try array(message.pointee.n_entries, message.pointee.entries, entry),
      released: message.pointee.released != 0,
      follows: message.pointee.follows == 0 ? nil : message.pointee.follows - 1)
  }

  static func checkpoint(
    _ message: UnsafeMutablePointer<Callmesh__V1__Checkpoint>
  ) throws(Fault) -> Checkpoint {
    try checkKept(format: message.pointee.format)
    return Checkpoint(
      sequence: message.pointee.sequence, epoch: message.pointee.epoch,
      entries: try array(message.pointee.n_entries, message.pointee.entries, entry))
  }

  static func registration(
    _ message: UnsafeMutablePointer<Callmesh__V1__RegistrationRecord>
  ) throws(Fault) -> Registration {
    try checkKept(format: message.pointee.format)
    return Registration(
      user: UserKey(
        app: try text(message.pointee.app, "app"), user: try text(message.pointee.user, "user")),
      device: DeviceID(try text(message.pointee.device, "device")),
      request: try register(there(message.pointee.registration, "registration")),
      registeredAt: Timestamp(microseconds: message.pointee.registered_at_us),
      seenAt: Timestamp(microseconds: message.pointee.seen_at_us),
      // Those of before are derived now.
      capabilities: message.pointee.capabilities_known == 0
        ? nil : PushCapabilities(rawValue: message.pointee.capabilities))
  }

  private static func entry(
    _ message: UnsafeMutablePointer<Callmesh__V1__JournalEntry>
  ) throws(Fault) -> JournalEntry {
    JournalEntry(call: try id(message.pointee.call, "call"), change: try change(message))
  }

  private static func change(
    _ message: UnsafeMutablePointer<Callmesh__V1__JournalEntry>
  ) throws(Fault) -> JournalEntry.Change {
    switch message.pointee.change_case {
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PLACED:
      return .placed(try placed(there(message.pointee.placed, "placed")))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_JOINED:
      return .legJoined(
        try device(there(message.pointee.leg_joined, "legJoined").pointee.device, "device"))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ALERTING:
      let alerting = try there(message.pointee.alerting, "alerting")
      return .alerting(DeviceID(try text(alerting.pointee.device, "device")))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ANSWERED:
      return .answered(try answered(there(message.pointee.answered, "answered")))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_ENDED:
      let ended = try there(message.pointee.leg_ended, "legEnded")
      return .legEnded(
        DeviceID(try text(ended.pointee.device, "device")),
        try known(ended.pointee.end.rawValue, LegEnd.self, "end"),
        at: ended.pointee.at_us == 0 ? nil : Timestamp(microseconds: ended.pointee.at_us))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CONNECTED:
      return .connected(
        caller: try there(message.pointee.connected, "connected").pointee.caller != 0)
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ENDED:
      return .ended(try ended(there(message.pointee.ended, "ended")))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SIGNAL:
      let signal = try there(message.pointee.signal, "signal")
      return .signal(
        fromCaller: signal.pointee.from_caller != 0,
        DeviceID(try text(signal.pointee.device, "device")),
        Signal(
          index: signal.pointee.index,
          kind: try known(signal.pointee.kind.rawValue, SignalKind.self, "kind"),
          body: try text(signal.pointee.body, "body"), request: signal.pointee.request))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CALLER_LOST:
      return .callerLost(until: lost(try there(message.pointee.caller_lost, "callerLost")))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_WINNER_LOST:
      return .winnerLost(until: lost(try there(message.pointee.winner_lost, "winnerLost")))
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SETTLED:
      return .settled
    case CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PUSHED:
      let pushed = try there(message.pointee.pushed, "pushed")
      return .pushed(
        DeviceID(try text(pushed.pointee.device, "device")),
        try known(pushed.pointee.purpose, PushPurpose.self, "purpose"))
    default: throw .unknownMember("change")
    }
  }

  private static func device(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__Device>?, _ field: StaticString
  ) throws(Fault) -> Party {
    let message = try there(pointer, field)
    return try party(message)
  }

  private static func party(
    _ message: UnsafeMutablePointer<Callmesh__V1__Device>
  ) throws(Fault) -> Party {
    Party(
      user: try text(message.pointee.user, "device.user"),
      device: DeviceID(try text(message.pointee.device, "device.device")),
      deviceName: try text(message.pointee.name, "device.name"))
  }

  private static func placed(
    _ message: UnsafeMutablePointer<Callmesh__V1__PlacedEntry>
  ) throws(Fault) -> PlacedFacts {
    var facts = PlacedFacts(
      callee: UserKey(
        app: try text(message.pointee.app, "app"),
        user: try text(message.pointee.callee, "callee")),
      caller: try device(message.pointee.caller, "caller"),
      placedAt: Timestamp(microseconds: message.pointee.placed_at_us),
      deadline: Timestamp(microseconds: message.pointee.deadline_us),
      video: message.pointee.video != 0,
      description: try text(message.pointee.description, "description"),
      headers: try array(message.pointee.n_headers, message.pointee.headers, header),
      legs: try array(message.pointee.n_legs, message.pointee.legs, party),
      fingerprint: message.pointee.fingerprint)
    facts.signalsTaken = try array(
      message.pointee.n_signals_taken, message.pointee.signals_taken, mark)
    return facts
  }

  private static func mark(
    _ message: UnsafeMutablePointer<Callmesh__V1__SignalMark>
  ) throws(Fault) -> SignalMark {
    SignalMark(
      fromCaller: message.pointee.from_caller != 0,
      device: DeviceID(try text(message.pointee.device, "device")),
      request: message.pointee.request, content: message.pointee.content)
  }

  private static func answered(
    _ message: UnsafeMutablePointer<Callmesh__V1__AnsweredEntry>
  ) throws(Fault) -> AnsweredFacts {
    AnsweredFacts(
      by: try device(message.pointee.by, "by"),
      at: Timestamp(microseconds: message.pointee.at_us),
      description: try text(message.pointee.description, "description"),
      connectDeadline: Timestamp(microseconds: message.pointee.connect_deadline_us))
  }

  private static func ended(
    _ message: UnsafeMutablePointer<Callmesh__V1__EndedEntry>
  ) throws(Fault) -> EndedFacts {
    EndedFacts(
      reason: try known(message.pointee.reason.rawValue, EndReason.self, "reason"),
      by: message.pointee.by == nil ? nil : try device(message.pointee.by, "by"),
      at: Timestamp(microseconds: message.pointee.at_us), missed: message.pointee.missed != 0)
  }

  private static func lost(_ message: UnsafeMutablePointer<Callmesh__V1__LostEntry>) -> Timestamp? {
    let deadline = message.pointee.deadline_us
    return deadline == 0 ? nil : Timestamp(microseconds: deadline)
  }
}
