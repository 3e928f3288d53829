internal import CCallProto
internal import CallCore

// The messages of a command (cluster.proto).

extension Callmesh__V1__AckCommand: Mapping {
  static var blank: [Acknowledgement] { [] }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ack_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.array(&value, &m.n_items, &m.items)
  }
}

extension Callmesh__V1__Acknowledgement: Mapping {
  static var blank: Acknowledgement { Acknowledgement(call: .zero, version: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__acknowledgement__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    c.number(&value.version, &m.version)
  }
}

extension Callmesh__V1__AnswerCommand: Mapping {
  static var blank: (call: CallID, description: String) { (.zero, "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__answer_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.text(&value.description, &m.description, "description")
  }
}

extension Callmesh__V1__PullCommand: Mapping {
  static var blank: (call: CallID, request: PullRequest) { (.zero, PullRequest(from: "")) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__pull_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.device(&value.request.from, &m.from)
    try c.text(&value.request.description, &m.description, "description")
    try c.text(&value.request.deviceName, &m.device_name, "deviceName")
  }
}

extension Callmesh__V1__DeclineCommand: Mapping {
  static var blank: (call: CallID, scope: DeclineScope) { (.zero, .everywhere) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__decline_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.known(&value.scope, &m.scope, "scope")
  }
}

extension Callmesh__V1__SignalCommand: Mapping {
  static var blank: (call: CallID, body: String) { (.zero, "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__signal_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.text(&value.body, &m.body, "body")
  }
}

extension Callmesh__V1__PlaceCommand: Mapping {
  static var blank: PlaceRequest { PlaceRequest(call: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__place_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.setup.call, &m.call, "call")
    c.number(&value.setup.ringTimeoutSeconds, &m.ring_timeout_seconds)
    try c.text(&value.setup.description, &m.description, "description")
    try c.array(&value.setup.headers, &m.n_headers, &m.headers)
    c.flag(&value.setup.video, &m.video)
    try c.text(&value.deviceName, &m.device_name, "deviceName")
    try c.text(&value.callerName, &m.caller_name, "callerName")
    try c.text(&value.setup.pushData, &m.push_data, "pushData")
    c.time(&value.receivedAt, microseconds: &m.received_at_us)
    try c.texts(&value.forward, &m.n_forward, &m.forward, "forward")
    c.secondCalls(&value.busyWhileInCall, &m.second_calls)
    c.subscriptions(&value.subscriptions, &m.follows)
    c.flag(&value.ringsAnew, &m.rings_anew)
  }
}

extension Coder {
  /// 1: they ring; 2: the user is busy; 0: not said.
  @safe
  fileprivate func secondCalls(_ busy: inout Bool?, _ field: inout UInt32) {
    var number: UInt32 = busy.map { $0 ? 2 : 1 } ?? 0
    self.number(&number, &field)
    if Self.reads { busy = number == 0 ? nil : number == 2 }
  }
}

extension Callmesh__V1__AttachCommand: Mapping {
  static var blank: Attach { Attach() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__attach_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.optionalID(&value.forCall, &m.for_call, "forCall")
    try c.text(&value.deviceName, &m.device_name, "deviceName")
    c.flag(&value.announce, &m.announce)
    try c.text(&value.client, &m.client, "client")
    c.time(&value.attachedAt, microseconds: &m.attached_at_us)
    c.flag(&value.onlyPlaces, &m.only_places)
    try c.optional(&value.talking, &m.talking)
    try c.optional(&value.ongoing, &m.ongoing)
    try c.optional(&value.history, &m.history)
    try c.optional(&value.userName, &m.user_name)
  }
}

extension Callmesh__V1__OngoingMark: Mapping {
  static var blank: OngoingMark { OngoingMark() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ongoing_mark__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.version, &m.version)
    c.flag(&value.showsCalls, &m.shows_calls)
  }
}

extension Callmesh__V1__Talking: Mapping {
  static var blank: Talking { Talking(number: 0, calls: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__talking__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.number, &m.number)
    try c.ids(&value.calls, &m.n_calls, &m.calls, "talking.calls")
    try c.array(&value.details, &m.n_details, &m.details)
  }
}

extension Callmesh__V1__TalkingDetail: Mapping {
  static var blank: Talking.Detail { Talking.Detail(callee: "", since: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__talking_detail__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.callee, &m.callee, "talking.callee")
    c.time(&value.since, microseconds: &m.since_us)
    try c.text(&value.peer, &m.peer, "talking.peer")
  }
}

extension Callmesh__V1__SessionClosed: Mapping {
  static var blank: Bool { false }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__session_closed__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.flag(&value, &m.graceful)
  }
}

extension Callmesh__V1__CallerGone: Mapping {
  static var blank: [CallID] { [] }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__caller_gone__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.ids(&value, &m.n_calls, &m.calls, "calls")
  }
}

extension Callmesh__V1__CallsCommand: Mapping {
  static var blank: UInt32 { 0 }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__calls_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value, &m.shard)
  }
}

extension Callmesh__V1__CrossedCall: Mapping {
  static var blank: CrossedCall { CrossedCall(call: .zero, caller: "", survivor: .zero, by: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__crossed_call__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "crossed.call")
    try c.text(&value.caller, &m.caller, "crossed.caller")
    try c.id(&value.survivor, &m.survivor, "crossed.survivor")
    try c.device(&value.by, &m.by)
    c.flag(&value.isSurvivorAnswered, &m.is_survivor_answered)
  }
}

extension Callmesh__V1__MergeRequest: Mapping {
  static var blank: MergeRequest { MergeRequest(call: .zero, merged: .zero, caller: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__merge_request__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "merge.call")
    try c.id(&value.merged, &m.merged, "merge.merged")
    try c.text(&value.caller, &m.caller, "merge.caller")
    try c.text(&value.deviceName, &m.device_name, "merge.deviceName")
  }
}

// MARK: Between shards

extension Callmesh__V1__VisitRequest: Mapping {
  static var blank: VisitRequest { VisitRequest(call: .zero, callee: "", caller: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__visit_request__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "visit.call")
    try c.text(&value.callee, &m.callee, "visit.callee")
    try c.text(&value.caller, &m.caller, "visit.caller")
    try c.device(&value.answeredBy, &m.answered_by)
    c.time(&value.answeredAt, microseconds: &m.answered_at_us)
    try c.text(&value.callerName, &m.caller_name, "visit.callerName")
    c.number(&value.number, &m.number)
    c.secondCalls(&value.busyWhileInCall, &m.second_calls)
    c.flag(&value.isMember, &m.is_member)
    try c.optionalID(&value.consulted, &m.consulted, "visit.consulted")
    c.flag(&value.isOver, &m.is_over)
    c.round(&value.round, &m.round)
    c.flag(&value.wantsOthers, &m.wants_others)
    var ringsFor = value.ringsFor.map { max(1, $0.microseconds) } ?? 0
    c.number(&ringsFor, &m.rings_for_us)
    if C.reads { value.ringsFor = ringsFor > 0 ? Span(microseconds: ringsFor) : nil }
  }
}

extension Callmesh__V1__VisitAnswer: Mapping {
  static var blank: (request: UInt64, answer: VisitAnswer) { (0, VisitAnswer()) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__visit_answer__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.request, &m.request)
    try c.array(&value.answer.devices, &m.n_devices, &m.devices)
    c.flag(&value.answer.isComplete, &m.is_complete)
    c.flag(&value.answer.isBusy, &m.is_busy)
    c.flag(&value.answer.isInCall, &m.is_in_call)
    try c.known(&value.answer.diverted, &m.diverted, "visit.diverted")
    try c.texts(&value.answer.to, &m.n_to, &m.to, "visit.to")
    var after = Timestamp(microseconds: value.answer.noAnswerAfter.microseconds)
    c.time(&after, microseconds: &m.no_answer_after_us)
    if C.reads { value.answer.noAnswerAfter = Span(microseconds: after.microseconds) }
    var ringSlot = Timestamp(microseconds: value.answer.ringSlot?.microseconds ?? 0)
    c.time(&ringSlot, microseconds: &m.turn_us)
    if C.reads, ringSlot != .zero {
      value.answer.ringSlot = Span(microseconds: ringSlot.microseconds)
    }
  }
}

extension Callmesh__V1__VisitDevice: Mapping {
  static var blank: VisitAnswer.Device { VisitAnswer.Device(id: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__visit_device__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value.id, &m.device)
    try c.text(&value.name, &m.name, "visit.name")
    var (edge, number) = (value.session?.edge ?? 0, value.session?.number ?? 0)
    c.number(&edge, &m.edge)
    c.number(&number, &m.session)
    if C.reads, edge != 0 || number != 0 { value.session = SessionRef(edge: edge, number: number) }
    try c.optional(&value.registration, &m.registration)
    c.flag(&value.isHeld, &m.is_held)
  }
}
