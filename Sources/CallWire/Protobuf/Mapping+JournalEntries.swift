internal import CCallProto
internal import CallCore

// The contents of entries of the journal (journal.proto).

extension Callmesh__V1__SettledEntry: EmptyMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__settled_entry__init(m) }
}

/// A participant; not the `Party` of device.proto.
extension Callmesh__V1__Device: Mapping {
  static var blank: Party { Callmesh__V1__Party.blank }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__device__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.user, &m.user, "device.user")
    try c.device(&value.device, &m.device, "device.device")
    try c.text(&value.deviceName, &m.name, "device.name")
    try c.text(&value.name, &m.user_name, "device.userName")
  }
}

extension Callmesh__V1__PlacedEntry: Mapping {
  static var blank: PlacedFacts {
    PlacedFacts(
      callee: .blank, caller: Callmesh__V1__Party.blank, placedAt: .zero, deadline: .zero,
      video: false, description: "", headers: [], legs: [], fingerprint: 0)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__placed_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.user(&value.callee, &m.app, &m.callee)
    try c.message(&value.caller, &m.caller, "caller")
    c.time(&value.placedAt, microseconds: &m.placed_at_us)
    c.time(&value.deadline, microseconds: &m.deadline_us)
    c.flag(&value.video, &m.video)
    try c.text(&value.description, &m.description, "description")
    try c.array(&value.headers, &m.n_headers, &m.headers)
    try c.text(&value.pushData, &m.push_data, "pushData")
    try c.array(&value.legs, &m.n_legs, &m.legs)
    c.number(&value.fingerprint, &m.fingerprint)
    c.flag(&value.isCalleeInCall, &m.callee_in_call)
    c.subscriptions(&value.subscriptions, &m.follows)
    try c.array(&value.signalsTaken, &m.n_signals_taken, &m.signals_taken)
    var leg = value.firstAlerting.map { UInt32($0.leg) + 1 } ?? 0
    var at = value.firstAlerting?.at ?? .zero
    c.number(&leg, &m.alerted_leg)
    c.time(&at, microseconds: &m.alerted_at_us)
    if C.reads, leg > 0 {
      value.firstAlerting = FirstAlerting(leg: UInt8(clamping: leg - 1), at: at)
    }
    var rings = Timestamp(microseconds: value.callerRings?.microseconds ?? 0)
    c.time(&rings, microseconds: &m.caller_rings_us)
    if C.reads, rings != .zero { value.callerRings = Span(microseconds: rings.microseconds) }
    try c.device(&value.onlyDevice, &m.only_device)
    c.flag(&value.isRingFixed, &m.ring_fixed)
  }
}

extension Callmesh__V1__SignalMark: Mapping {
  static var blank: SignalMark { SignalMark(fromCaller: false, device: "", request: 0, content: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__signal_mark__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.flag(&value.fromCaller, &m.from_caller)
    try c.device(&value.device, &m.device)
    c.number(&value.request, &m.request)
    c.number(&value.content, &m.content)
  }
}

extension Callmesh__V1__AnsweredEntry: Mapping {
  static var blank: AnsweredFacts {
    AnsweredFacts(by: Callmesh__V1__Party.blank, at: .zero, description: "", connectDeadline: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__answered_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value.by, &m.by, "by")
    c.time(&value.at, microseconds: &m.at_us)
    try c.text(&value.description, &m.description, "description")
    c.time(&value.connectDeadline, microseconds: &m.connect_deadline_us)
    try c.optionalID(&value.merged, &m.merged, "merged")
  }
}

extension Callmesh__V1__MovedEntry: Mapping {
  static var blank: MovedFacts {
    let nobody = Callmesh__V1__Party.blank
    return MovedFacts(
      ofCaller: false, from: nobody, to: nobody, at: .zero, description: "", connectDeadline: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__moved_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.flag(&value.ofCaller, &m.of_caller)
    try c.message(&value.from, &m.from, "from")
    try c.message(&value.to, &m.to, "to")
    c.time(&value.at, microseconds: &m.at_us)
    try c.text(&value.description, &m.description, "description")
    c.time(&value.connectDeadline, microseconds: &m.connect_deadline_us)
    c.number(&value.command, &m.command)
  }
}

extension Callmesh__V1__DivertedEntry: Mapping {
  static var blank: DivertedFacts {
    DivertedFacts(from: "", to: [], reason: .always, at: .zero, deadline: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__diverted_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.from, &m.from, "from")
    try c.texts(&value.to, &m.n_to, &m.to, "to")
    try c.known(&value.reason, &m.reason, "reason")
    try c.optional(&value.by, &m.by)
    c.time(&value.at, microseconds: &m.at_us)
    c.time(&value.deadline, microseconds: &m.deadline_us)
    try c.texts(&value.queue, &m.n_queue, &m.queue, "queue")
    var ringSlot = Timestamp(microseconds: value.ringSlot.microseconds)
    c.time(&ringSlot, microseconds: &m.turn_us)
    if C.reads { value.ringSlot = Span(microseconds: ringSlot.microseconds) }
    try c.device(&value.device, &m.device)
    try c.consulted(&value.consulted, &m.consulted, &m.consulted_callee)
    c.number(&value.request, &m.request)
  }
}

extension Callmesh__V1__EndedEntry: Mapping {
  static var blank: (facts: EndedFacts, isRecorded: Bool) {
    (EndedFacts(reason: .failed, by: nil, at: .zero, missed: false), false)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ended_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.known(&value.facts.reason, &m.reason, "reason")
    try c.optional(&value.facts.by, &m.by)
    c.time(&value.facts.at, microseconds: &m.at_us)
    c.flag(&value.facts.missed, &m.missed)
    try c.optionalID(&value.facts.survivor, &m.survivor, "survivor")
    try c.known(&value.facts.unreachable, &m.unreachable, "unreachable")
    c.flag(&value.facts.byApp, &m.by_app)
    c.flag(&value.isRecorded, &m.recorded)
  }
}

extension Callmesh__V1__SignalEntry: Mapping {
  typealias Value = (fromCaller: Bool, device: DeviceID, signal: Signal)
  static var blank: Value { (false, "", Signal(index: 0, kind: .candidate, body: "")) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__signal_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.flag(&value.fromCaller, &m.from_caller)
    try c.device(&value.device, &m.device)
    try c.known(&value.signal.kind, &m.kind, "kind")
    try c.text(&value.signal.body, &m.body, "body")
    c.number(&value.signal.index, &m.index)
    c.number(&value.signal.request, &m.request)
  }
}

extension Callmesh__V1__LegJoinedEntry: Mapping {
  static var blank: Party { Callmesh__V1__Party.blank }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__leg_joined_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value, &m.device, "device")
  }
}

extension Callmesh__V1__AlertingEntry: Mapping {
  static var blank: DeviceID { "" }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__alerting_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value, &m.device)
  }
}

extension Callmesh__V1__LegEndedEntry: Mapping {
  static var blank: (device: DeviceID, end: LegEnd, at: Timestamp?) { ("", .gone, nil) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__leg_ended_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try c.known(&value.end, &m.end, "end")
    c.time(&value.at, microseconds: &m.at_us)
  }
}

extension Callmesh__V1__ConnectedEntry: Mapping {
  static var blank: Bool { false }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__connected_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.flag(&value, &m.caller)
  }
}

extension Callmesh__V1__PushedEntry: Mapping {
  static var blank: (device: DeviceID, purpose: PushPurpose) { ("", .ring) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__pushed_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
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

extension Callmesh__V1__LostEntry: Mapping {
  static var blank: Timestamp? { nil }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__lost_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.time(&value, microseconds: &m.deadline_us)
  }
}
