internal import CCallProto
internal import CallCore

// The requests of an app's server (cluster.proto), and the answers to them (device.proto).

extension Callmesh__V1__AppCommand: Mapping {
  static var blank: AppRequest { .user }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    if C.reads {
      value = try request(c, m)
    } else {
      m.request_case = try write(c, value, &m)
    }
  }

  private static func request<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> AppRequest {
    switch m.request_case {
    case CALLMESH__V1__APP_COMMAND__REQUEST_USER: return .user
    case CALLMESH__V1__APP_COMMAND__REQUEST_CALLS: return .calls(shard: try c.read(m.calls))
    case CALLMESH__V1__APP_COMMAND__REQUEST_LIVE: return .live(try c.read(m.live))
    case CALLMESH__V1__APP_COMMAND__REQUEST_CALL: return .call(try c.read(m.call, "call"))
    case CALLMESH__V1__APP_COMMAND__REQUEST_END: return .end(try c.read(m.end, "end"))
    case CALLMESH__V1__APP_COMMAND__REQUEST_PLACE: return .place(try c.read(m.place))
    case CALLMESH__V1__APP_COMMAND__REQUEST_REMOVE:
      return .remove(try c.read(m.remove) ?? "")
    case CALLMESH__V1__APP_COMMAND__REQUEST_GROUP: return .group
    case CALLMESH__V1__APP_COMMAND__REQUEST_SET_GROUP: return .setGroup(try c.read(m.set_group))
    case CALLMESH__V1__APP_COMMAND__REQUEST_NAME: return .name
    case CALLMESH__V1__APP_COMMAND__REQUEST_SET_NAME: return .setName(try c.read(m.set_name))
    default: throw c.failure(.unknownMember("request"))
    }
  }

  private static func write<C: Coder>(_ c: C, _ request: AppRequest, _ m: inout Self) throws(C
    .Failure) -> Callmesh__V1__AppCommand__RequestCase
  {
    switch request {
    case .user: return try c.write((), &m.user, CALLMESH__V1__APP_COMMAND__REQUEST_USER)
    case .calls(let shard):
      return try c.write(shard, &m.calls, CALLMESH__V1__APP_COMMAND__REQUEST_CALLS)
    case .live(let query):
      return try c.write(query, &m.live, CALLMESH__V1__APP_COMMAND__REQUEST_LIVE)
    case .call(let call):
      m.call = c.write(call)
      return CALLMESH__V1__APP_COMMAND__REQUEST_CALL
    case .end(let call):
      m.end = c.write(call)
      return CALLMESH__V1__APP_COMMAND__REQUEST_END
    case .place(let placing):
      return try c.write(placing, &m.place, CALLMESH__V1__APP_COMMAND__REQUEST_PLACE)
    case .remove(let device):
      return try c.write(device, &m.remove, CALLMESH__V1__APP_COMMAND__REQUEST_REMOVE)
    case .group: return try c.write((), &m.group, CALLMESH__V1__APP_COMMAND__REQUEST_GROUP)
    case .setGroup(let group):
      return try c.write(group, &m.set_group, CALLMESH__V1__APP_COMMAND__REQUEST_SET_GROUP)
    case .name: return try c.write((), &m.name, CALLMESH__V1__APP_COMMAND__REQUEST_NAME)
    case .setName(let name):
      return try c.write(name, &m.set_name, CALLMESH__V1__APP_COMMAND__REQUEST_SET_NAME)
    }
  }
}

extension Callmesh__V1__AppPlace: Mapping {
  static var blank: AppPlacing { AppPlacing(Callmesh__V1__PlaceCommand.blank, caller: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_place__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value.request, &m.place, "place")
    try c.text(&value.caller, &m.caller, "caller")
    try c.device(&value.device, &m.device)
  }
}

extension Coder {
  /// nil is empty.
  @safe
  fileprivate func place(
    _ value: inout AppCallPlace?, _ field: inout CText?, _ name: StaticString
  ) throws(Failure) {
    var text = value?.text ?? ""
    try self.text(&text, &field, name)
    guard Self.reads else { return }
    value = text.isEmpty ? nil : AppCallPlace(text: text)
    if !text.isEmpty, value == nil { throw failure(.field(String(describing: name))) }
  }
}

extension Callmesh__V1__LiveCallsQuery: Mapping {
  static var blank: LiveCallsQuery { LiveCallsQuery(limit: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__live_calls_query__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.shard, &m.shard)
    try c.place(&value.before, &m.before, "before")
    c.number(&value.limit, &m.limit)
  }
}

/// The body of a request; `AppPlace` is what becomes of it.
extension Callmesh__V1__AppPlaceBody: Mapping {
  static var blank: HTTPBodies.PlaceCall { HTTPBodies.PlaceCall(from: "", to: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_place_body__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.optionalID(&value.call, &m.call_id, "callId")
    try c.text(&value.from, &m.from, "from")
    try c.text(&value.to, &m.to, "to")
    c.flag(&value.video, &m.video)
    c.number(&value.ringTimeoutSeconds, &m.ring_timeout_seconds)
    try c.array(&value.headers, &m.n_headers, &m.headers)
    try c.text(&value.pushData, &m.push_data, "pushData")
    try c.text(&value.callerName, &m.caller_name, "callerName")
    try c.device(&value.device, &m.from_device)
  }
}

extension Callmesh__V1__AppGroup: Mapping {
  static var blank: CallGroup? { nil }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_group__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.optional(&value, &m.group)
  }
}

extension Callmesh__V1__CallGroup: Mapping {
  static var blank: CallGroup { CallGroup(users: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__call_group__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.texts(&value.users, &m.n_users, &m.users, "users")
    try c.known(&value.order, &m.order, "order")
    c.number(&value.turnSeconds, &m.turn_seconds)
    if C.reads, value.turnSeconds == 0 { value.turnSeconds = CallGroup.turnStandard }
  }
}

extension Callmesh__V1__DisplayName: Mapping {
  static var blank: String { "" }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__display_name__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value, &m.name, "name")
  }
}

extension Callmesh__V1__AppUserQuery: EmptyMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_user_query__init(m) }
}

// MARK: Answers

extension Callmesh__V1__AppReply: Mapping {
  static var blank: AppReply { .calls(AppCalls()) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_reply__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    guard C.reads else {
      switch value {
      case .user(let user):
        m.answer_case = try c.write(user, &m.user, CALLMESH__V1__APP_REPLY__ANSWER_USER)
      case .calls(let calls):
        m.answer_case = try c.write(calls, &m.calls, CALLMESH__V1__APP_REPLY__ANSWER_CALLS)
      case .call(let call):
        m.answer_case = try c.write(call, &m.call, CALLMESH__V1__APP_REPLY__ANSWER_CALL)
      case .group(let group):
        m.answer_case = try c.write(group, &m.group, CALLMESH__V1__APP_REPLY__ANSWER_GROUP)
      case .name(let name):
        m.answer_case = try c.write(name, &m.name, CALLMESH__V1__APP_REPLY__ANSWER_NAME)
      }
      return
    }
    switch m.answer_case {
    case CALLMESH__V1__APP_REPLY__ANSWER_USER: value = .user(try c.read(m.user))
    case CALLMESH__V1__APP_REPLY__ANSWER_CALLS: value = .calls(try c.read(m.calls))
    case CALLMESH__V1__APP_REPLY__ANSWER_CALL: value = .call(try c.read(m.call))
    case CALLMESH__V1__APP_REPLY__ANSWER_GROUP: value = .group(try c.read(m.group))
    case CALLMESH__V1__APP_REPLY__ANSWER_NAME: value = .name(try c.read(m.name))
    default: throw c.failure(.unknownMember("answer"))
    }
  }
}

extension Callmesh__V1__AppUser: Mapping {
  static var blank: AppUser { AppUser(user: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_user__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.user, &m.user, "user")
    try c.array(&value.devices, &m.n_devices, &m.devices)
    try c.array(&value.calls, &m.n_calls, &m.calls)
    try c.text(&value.name, &m.name, "name")
  }
}

extension Callmesh__V1__AppDevice: Mapping {
  static var blank: AppUser.Device { AppUser.Device(device: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_device__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try c.text(&value.name, &m.name, "name")
    try c.text(&value.client, &m.client, "client")
    var (attached, registered) = (value.attachedAt != nil, value.registeredAt != nil)
    c.flag(&attached, &m.attached)
    c.flag(&registered, &m.registered)
    c.time(&value.attachedAt, milliseconds: &m.attached_at_ms)
    c.time(&value.registeredAt, milliseconds: &m.registered_at_ms)
    c.time(&value.seenAt, milliseconds: &m.seen_at_ms)
    try c.known(&value.voipPush, &m.voip_push, "voipPush")
    try c.known(&value.alertPush, &m.alert_push, "alertPush")
    guard C.reads else { return }
    // A time of 0 is one that is not known.
    if attached, value.attachedAt == nil { value.attachedAt = .zero }
    if registered, value.registeredAt == nil { value.registeredAt = .zero }
  }
}

extension Callmesh__V1__AppCalls: Mapping {
  static var blank: AppCalls { AppCalls() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_calls__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.array(&value.calls, &m.n_calls, &m.calls)
    try c.place(&value.next, &m.next, "next")
  }
}

extension Callmesh__V1__AppCall: Mapping {
  static var blank: AppCall {
    AppCall(
      state: Callmesh__V1__CallState.blank, caller: Callmesh__V1__Party.blank, placedAt: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_call__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value.state, &m.state, "state")
    try c.message(&value.caller, &m.caller, "caller")
    c.time(&value.placedAt, milliseconds: &m.placed_at_ms)
    try c.optional(&value.answeredBy, &m.answered_by)
    c.flag(&value.endedByApp, &m.ended_by_app)
  }
}
