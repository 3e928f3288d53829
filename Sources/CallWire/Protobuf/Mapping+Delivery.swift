internal import CCallProto
internal import CallCore

// Deliveries of shards to devices (device.proto).

extension Callmesh__V1__Delivery: Mapping {
  static var blank: Delivery {
    Delivery(call: .zero, callee: "", version: 0, at: .zero, event: blankEvent)
  }
  /// Once: an event is allocated.
  private static let blankEvent = Delivery.Event.ringing(by: Callmesh__V1__Party.blank)
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__delivery__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.callee, &value.call, &m.call)
    c.number(&value.version, &m.version)
    c.time(&value.at, milliseconds: &m.at_ms)
    c.number(&value.after, &m.after)
    if C.reads {
      value.event = try event(c, m)
    } else {
      m.event_case = try write(c, value.event, &m)
    }
  }

  private static func event<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> Delivery.Event {
    switch m.event_case {
    case CALLMESH__V1__DELIVERY__EVENT_INVITE: .invite(try c.read(m.invite))
    case CALLMESH__V1__DELIVERY__EVENT_RINGING: .ringing(by: try c.read(m.ringing))
    case CALLMESH__V1__DELIVERY__EVENT_ANSWERED: .answered(try c.read(m.answered))
    case CALLMESH__V1__DELIVERY__EVENT_STOP: .stop(try c.read(m.stop))
    case CALLMESH__V1__DELIVERY__EVENT_SIGNAL: .signal(try c.read(m.signal))
    case CALLMESH__V1__DELIVERY__EVENT_MOVED: .moved(try c.read(m.moved))
    case CALLMESH__V1__DELIVERY__EVENT_TRANSFER: .transfer(try c.read(m.transfer))
    case CALLMESH__V1__DELIVERY__EVENT_RINGS_UNTIL: .ringsUntil(try c.read(m.rings_until))
    default: try laterEvent(c)
    }
  }

  /// To a client an event of a later version is like a signal of an unknown kind: it acknowledges the delivery, so that
  /// those behind it arrive.
  private static func laterEvent<C: Coder>(_ c: C) throws(C.Failure) -> Delivery.Event {
    guard c.isDeviceProtocol else { throw c.failure(.unknownMember("event")) }
    return .signal(Signal(index: 0, kind: .unknown, body: ""))
  }

  private static func write<C: Coder>(_ c: C, _ event: Delivery.Event, _ m: inout Self) throws(C
    .Failure) -> Callmesh__V1__Delivery__EventCase
  {
    switch event {
    case .invite(let invite): try c.write(invite, &m.invite, CALLMESH__V1__DELIVERY__EVENT_INVITE)
    case .ringing(let party): try c.write(party, &m.ringing, CALLMESH__V1__DELIVERY__EVENT_RINGING)
    case .answered(let answered):
      try c.write(answered, &m.answered, CALLMESH__V1__DELIVERY__EVENT_ANSWERED)
    case .stop(let stop): try c.write(stop, &m.stop, CALLMESH__V1__DELIVERY__EVENT_STOP)
    case .signal(let signal): try c.write(signal, &m.signal, CALLMESH__V1__DELIVERY__EVENT_SIGNAL)
    case .moved(let moved): try c.write(moved, &m.moved, CALLMESH__V1__DELIVERY__EVENT_MOVED)
    case .transfer(let news):
      try c.write(news, &m.transfer, CALLMESH__V1__DELIVERY__EVENT_TRANSFER)
    case .ringsUntil(let deadline):
      try c.write(deadline, &m.rings_until, CALLMESH__V1__DELIVERY__EVENT_RINGS_UNTIL)
    }
  }
}

extension Callmesh__V1__Invite: Mapping {
  static var blank: Invite { Invite(caller: Callmesh__V1__Party.blank, deadline: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__invite__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value.caller, &m.caller, "caller")
    c.time(&value.deadline, milliseconds: &m.deadline_ms)
    c.flag(&value.video, &m.video)
    try c.text(&value.description, &m.description, "description")
    try c.array(&value.headers, &m.n_headers, &m.headers)
    try c.text(&value.pushData, &m.push_data, "pushData")
    try c.array(&value.signals, &m.n_signals, &m.signals)
    c.flag(&value.isSecondCall, &m.second_call)
    try c.text(&value.divertedBy, &m.diverted_by, "divertedBy")
    try c.optional(&value.transferredBy, &m.transferred_by)
    c.flag(&value.isSecondSide, &m.second_side)
    try c.consulted(&value.consulted, &m.consulted)
    try c.optionalID(&value.merged, &m.merged, "invite.merged")
  }
}

extension Callmesh__V1__Ringing: Mapping {
  static var blank: Party { Callmesh__V1__Party.blank }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ringing__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value, &m.by, "by")
  }
}

extension Callmesh__V1__RingsUntil: Mapping {
  static var blank: Timestamp { .zero }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__rings_until__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.time(&value, milliseconds: &m.deadline_ms)
  }
}

extension Callmesh__V1__Answered: Mapping {
  static var blank: Answered { Answered(by: Callmesh__V1__Party.blank, description: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__answered__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value.by, &m.by, "by")
    try c.text(&value.description, &m.description, "description")
    try c.array(&value.signals, &m.n_signals, &m.signals)
  }
}

extension Callmesh__V1__Moved: Mapping {
  static var blank: Moved { Moved(to: Callmesh__V1__Party.blank, number: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__moved__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value.to, &m.to, "to")
    try c.text(&value.description, &m.description, "description")
    c.number(&value.number, &m.number)
  }
}

extension Callmesh__V1__Stop: Mapping {
  static var blank: Stop { Stop(reason: .failed) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__stop__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.known(&value.reason, &m.reason, "reason", later: .failed)
    try c.optional(&value.by, &m.by)
    c.flag(&value.missed, &m.missed)
    try c.optionalID(&value.survivor, &m.survivor, "stop.survivor")
    try c.known(&value.unreachable, &m.unreachable, "stop.unreachable", later: nil)
  }
}
