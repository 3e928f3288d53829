internal import CCallProto
internal import CallCore

/// What a shard writes.
extension Packer {
  func journalRecord(
    _ value: JournalRecord
  ) -> UnsafeMutablePointer<Callmesh__V1__JournalRecord> {
    let message = arena.make(callmesh__v1__journal_record__init)
    message.pointee.format = format(of: value.entries)
    message.pointee.epoch = value.epoch
    message.pointee.number = value.number
    set(&message.pointee.writer, value.writer)
    message.pointee.at_us = value.at.microseconds
    message.pointee.n_entries = value.entries.count
    message.pointee.entries = array(value.entries, entry)
    message.pointee.released = value.released ? 1 : 0
    message.pointee.follows = value.follows.map { $0 &+ 1 } ?? 0
    return message
  }

  func checkpoint(_ value: Checkpoint) -> UnsafeMutablePointer<Callmesh__V1__Checkpoint> {
    let message = arena.make(callmesh__v1__checkpoint__init)
    message.pointee.format = format(of: value.entries)
    message.pointee.sequence = value.sequence
    message.pointee.epoch = value.epoch
    message.pointee.n_entries = value.entries.count
    message.pointee.entries = array(value.entries, entry)
    return message
  }

  /// The lowest that a reader must know.
  private func format(of entries: [JournalEntry]) -> UInt32 {
    for entry in entries {
      if case .pushed = entry.change { return ClusterCodec.pushFormat }
    }
    return ClusterCodec.firstFormat
  }

  func registration(
    _ value: Registration
  ) -> UnsafeMutablePointer<Callmesh__V1__RegistrationRecord> {
    let message = arena.make(callmesh__v1__registration_record__init)
    message.pointee.format = ClusterCodec.firstFormat
    set(&message.pointee.app, value.user.app)
    set(&message.pointee.user, value.user.user)
    set(&message.pointee.device, value.device.text)
    message.pointee.registration = register(value.request)
    message.pointee.registered_at_us = value.registeredAt.microseconds
    message.pointee.seen_at_us = value.seenAt.microseconds
    message.pointee.capabilities = value.capabilities.rawValue
    message.pointee.capabilities_known = 1
    return message
  }

  private func entry(_ value: JournalEntry) -> UnsafeMutablePointer<Callmesh__V1__JournalEntry> {
    let message = arena.make(callmesh__v1__journal_entry__init)
    message.pointee.call = id(value.call)
    switch value.change {
    case .placed(let facts):
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PLACED
      message.pointee.placed = placed(facts)
    case .legJoined(let party):
      let change = arena.make(callmesh__v1__leg_joined_entry__init)
      change.pointee.device = device(party)
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_JOINED
      message.pointee.leg_joined = change
    case .alerting(let device):
      let change = arena.make(callmesh__v1__alerting_entry__init)
      set(&change.pointee.device, device.text)
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ALERTING
      message.pointee.alerting = change
    case .answered(let facts):
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ANSWERED
      message.pointee.answered = answered(facts)
    case .legEnded(let device, let end, let at):
      let change = arena.make(callmesh__v1__leg_ended_entry__init)
      set(&change.pointee.device, device.text)
      change.pointee.end = .init(rawValue: .init(end.rawValue))
      change.pointee.at_us = at?.microseconds ?? 0
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_LEG_ENDED
      message.pointee.leg_ended = change
    case .connected(let caller):
      let change = arena.make(callmesh__v1__connected_entry__init)
      change.pointee.caller = caller ? 1 : 0
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CONNECTED
      message.pointee.connected = change
    case .ended(let facts):
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_ENDED
      message.pointee.ended = ended(facts)
    case .signal(let fromCaller, let device, let signal):
      let change = arena.make(callmesh__v1__signal_entry__init)
      change.pointee.from_caller = fromCaller ? 1 : 0
      set(&change.pointee.device, device.text)
      change.pointee.kind = .init(rawValue: .init(signal.kind.rawValue))
      set(&change.pointee.body, signal.body)
      change.pointee.index = signal.index
      change.pointee.request = signal.request
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SIGNAL
      message.pointee.signal = change
    case .callerLost(let until):
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_CALLER_LOST
      message.pointee.caller_lost = lost(until)
    case .winnerLost(let until):
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_WINNER_LOST
      message.pointee.winner_lost = lost(until)
    case .settled:
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_SETTLED
      message.pointee.settled = arena.make(callmesh__v1__settled_entry__init)
    case .pushed(let device, let purpose):
      let change = arena.make(callmesh__v1__pushed_entry__init)
      set(&change.pointee.device, device.text)
      change.pointee.purpose = UInt32(purpose.rawValue)
      message.pointee.change_case = CALLMESH__V1__JOURNAL_ENTRY__CHANGE_PUSHED
      message.pointee.pushed = change
    }
    return message
  }

  private func device(_ value: Party) -> UnsafeMutablePointer<Callmesh__V1__Device> {
    let message = arena.make(callmesh__v1__device__init)
    set(&message.pointee.user, value.user)
    set(&message.pointee.device, value.device.text)
    set(&message.pointee.name, value.deviceName)
    return message
  }

  private func placed(_ value: PlacedFacts) -> UnsafeMutablePointer<Callmesh__V1__PlacedEntry> {
    let message = arena.make(callmesh__v1__placed_entry__init)
    set(&message.pointee.app, value.callee.app)
    set(&message.pointee.callee, value.callee.user)
    message.pointee.caller = device(value.caller)
    message.pointee.placed_at_us = value.placedAt.microseconds
    message.pointee.deadline_us = value.deadline.microseconds
    message.pointee.video = value.video ? 1 : 0
    set(&message.pointee.description, value.description)
    message.pointee.n_headers = value.headers.count
    message.pointee.headers = array(value.headers, header)
    message.pointee.n_legs = value.legs.count
    message.pointee.legs = array(value.legs, device)
    message.pointee.fingerprint = value.fingerprint
    message.pointee.n_signals_taken = value.signalsTaken.count
    message.pointee.signals_taken = array(value.signalsTaken, mark)
    return message
  }

  private func mark(_ value: SignalMark) -> UnsafeMutablePointer<Callmesh__V1__SignalMark> {
    let message = arena.make(callmesh__v1__signal_mark__init)
    message.pointee.from_caller = value.fromCaller ? 1 : 0
    set(&message.pointee.device, value.device.text)
    message.pointee.request = value.request
    message.pointee.content = value.content
    return message
  }

  private func answered(
    _ value: AnsweredFacts
  ) -> UnsafeMutablePointer<Callmesh__V1__AnsweredEntry> {
    let message = arena.make(callmesh__v1__answered_entry__init)
    message.pointee.by = device(value.by)
    message.pointee.at_us = value.at.microseconds
    set(&message.pointee.description, value.description)
    message.pointee.connect_deadline_us = value.connectDeadline.microseconds
    return message
  }

  private func ended(_ value: EndedFacts) -> UnsafeMutablePointer<Callmesh__V1__EndedEntry> {
    let message = arena.make(callmesh__v1__ended_entry__init)
    message.pointee.reason = .init(rawValue: .init(value.reason.rawValue))
    message.pointee.by = value.by.map(device)
    message.pointee.at_us = value.at.microseconds
    message.pointee.missed = value.missed ? 1 : 0
    return message
  }

  private func lost(_ until: Timestamp?) -> UnsafeMutablePointer<Callmesh__V1__LostEntry> {
    let message = arena.make(callmesh__v1__lost_entry__init)
    message.pointee.deadline_us = until?.microseconds ?? 0
    return message
  }
}
