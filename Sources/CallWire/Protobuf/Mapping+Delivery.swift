internal import CCallProto
internal import CallCore

// What shards tell devices of calls (device.proto).

enum DeliveryMapping: Mapping {
  static var blank: Delivery {
    Delivery(
      call: CallID(high: 0, low: 0), callee: "", version: 0, at: Timestamp(microseconds: 0),
      event: .ringing(by: PartyMapping.blank))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Delivery>?) {
    callmesh__v1__delivery__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.address(&value.callee, &value.call, &m.call)
    c.number(&value.version, &m.version)
    c.time(&value.at, milliseconds: &m.at_ms)
    c.number(&value.after, &m.after)
    var event = Choice(c, m.event_case, value.event.member)
    try event.message(
      &value.event, InviteMapping.self, CALLMESH__V1__DELIVERY__EVENT_INVITE, &m.invite,
      { .invite($0) },
      { if case .invite(let invite) = $0 { invite } else { nil } })
    try event.message(
      &value.event, RingingMapping.self, CALLMESH__V1__DELIVERY__EVENT_RINGING, &m.ringing,
      { .ringing(by: $0) },
      { if case .ringing(let party) = $0 { party } else { nil } })
    try event.message(
      &value.event, AnsweredMapping.self, CALLMESH__V1__DELIVERY__EVENT_ANSWERED, &m.answered,
      { .answered($0) },
      { if case .answered(let answered) = $0 { answered } else { nil } })
    try event.message(
      &value.event, StopMapping.self, CALLMESH__V1__DELIVERY__EVENT_STOP, &m.stop, { .stop($0) },
      { if case .stop(let stop) = $0 { stop } else { nil } })
    try event.message(
      &value.event, SignalMapping.self, CALLMESH__V1__DELIVERY__EVENT_SIGNAL, &m.signal,
      { .signal($0) },
      { if case .signal(let signal) = $0 { signal } else { nil } })
    try event.end(&m.event_case, "event")
  }
}

extension Delivery.Event {
  fileprivate var member: Callmesh__V1__Delivery__EventCase {
    switch self {
    case .invite: CALLMESH__V1__DELIVERY__EVENT_INVITE
    case .ringing: CALLMESH__V1__DELIVERY__EVENT_RINGING
    case .answered: CALLMESH__V1__DELIVERY__EVENT_ANSWERED
    case .stop: CALLMESH__V1__DELIVERY__EVENT_STOP
    case .signal: CALLMESH__V1__DELIVERY__EVENT_SIGNAL
    }
  }
}

private enum InviteMapping: Mapping {
  static var blank: Invite {
    Invite(caller: PartyMapping.blank, deadline: Timestamp(microseconds: 0))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Invite>?) {
    callmesh__v1__invite__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.message(PartyMapping.self, &value.caller, &m.caller, "caller")
    c.time(&value.deadline, milliseconds: &m.deadline_ms)
    c.flag(&value.video, &m.video)
    try c.text(&value.description, &m.description, "description")
    try c.array(HeaderMapping.self, &value.headers, &m.n_headers, &m.headers)
    try c.array(SignalMapping.self, &value.signals, &m.n_signals, &m.signals)
  }
}

private enum RingingMapping: Mapping {
  static var blank: Party { PartyMapping.blank }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Ringing>?) {
    callmesh__v1__ringing__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.message(PartyMapping.self, &value, &m.by, "by")
  }
}

private enum AnsweredMapping: Mapping {
  static var blank: Answered { Answered(by: PartyMapping.blank, description: "") }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Answered>?) {
    callmesh__v1__answered__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.message(PartyMapping.self, &value.by, &m.by, "by")
    try c.text(&value.description, &m.description, "description")
    try c.array(SignalMapping.self, &value.signals, &m.n_signals, &m.signals)
  }
}

private enum StopMapping: Mapping {
  static var blank: Stop { Stop(reason: .failed) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Stop>?) {
    callmesh__v1__stop__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.known(&value.reason, &m.reason, "reason")
    try c.optional(PartyMapping.self, &value.by, &m.by)
    c.flag(&value.missed, &m.missed)
  }
}
