internal import CCallProto
internal import CallCore

// Frames of edges (device.proto).

extension Callmesh__V1__ServerFrame: Root {
  static var blank: ServerFrame { .notice(Callmesh__V1__Notice.blank) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__server_frame__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    if C.reads {
      value = try frame(c, m)
    } else {
      m.message_case = try write(c, value, &m)
    }
  }

  private static func frame<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> ServerFrame {
    switch m.message_case {
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_REPLY:
      let (id, reply) = try c.read(m.reply)
      return .reply(id: id, reply)
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_DELIVERY: return .delivery(try c.read(m.delivery))
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_NOTICE: return .notice(try c.read(m.notice))
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_ONGOING: return .ongoing(try c.read(m.ongoing))
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_HISTORY: return .history(try c.read(m.history))
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_RELAYS: return .relays(try c.read(m.relays))
    default: throw c.failure(.unknownMember("message"))
    }
  }

  private static func write<C: Coder>(_ c: C, _ frame: ServerFrame, _ m: inout Self) throws(C
    .Failure) -> Callmesh__V1__ServerFrame__MessageCase
  {
    switch frame {
    case .reply(let id, let reply):
      try c.write((id, reply), &m.reply, CALLMESH__V1__SERVER_FRAME__MESSAGE_REPLY)
    case .delivery(let delivery):
      try c.write(delivery, &m.delivery, CALLMESH__V1__SERVER_FRAME__MESSAGE_DELIVERY)
    case .notice(let notice):
      try c.write(notice, &m.notice, CALLMESH__V1__SERVER_FRAME__MESSAGE_NOTICE)
    case .ongoing(let ongoing):
      try c.write(ongoing, &m.ongoing, CALLMESH__V1__SERVER_FRAME__MESSAGE_ONGOING)
    case .history(let state):
      try c.write(state, &m.history, CALLMESH__V1__SERVER_FRAME__MESSAGE_HISTORY)
    case .relays(let relays):
      try c.write(relays, &m.relays, CALLMESH__V1__SERVER_FRAME__MESSAGE_RELAYS)
    }
  }
}

extension Callmesh__V1__Reply: Mapping {
  static var blank: (id: UInt64, reply: ServerReply) { (0, .done) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__reply__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.id, &m.id)
    if C.reads {
      value.reply = try reply(c, m)
    } else {
      m.result_case = try write(c, value.reply, &m)
    }
  }

  private static func reply<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> ServerReply {
    switch m.result_case {
    case CALLMESH__V1__REPLY__RESULT_ERROR: return .error(try c.read(m.error))
    case CALLMESH__V1__REPLY__RESULT_DONE: return .done
    case CALLMESH__V1__REPLY__RESULT_ATTACHED: return .attached(try c.read(m.attached))
    case CALLMESH__V1__REPLY__RESULT_REGISTERED: return .registered(try c.read(m.registered))
    case CALLMESH__V1__REPLY__RESULT_CALL: return .call(try c.read(m.call))
    case CALLMESH__V1__REPLY__RESULT_ANSWER:
      let (won, state) = try c.read(m.answer)
      return .answer(won: won, state)
    case CALLMESH__V1__REPLY__RESULT_CALLS: return .calls(try c.read(m.calls))
    case CALLMESH__V1__REPLY__RESULT_HISTORY: return .history(try c.read(m.history))
    case CALLMESH__V1__REPLY__RESULT_RULES: return .rules(try c.read(m.rules))
    default: throw c.failure(.unknownMember("result"))
    }
  }

  private static func write<C: Coder>(_ c: C, _ reply: ServerReply, _ m: inout Self) throws(C
    .Failure) -> Callmesh__V1__Reply__ResultCase
  {
    switch reply {
    case .error(let error): try c.write(error, &m.error, CALLMESH__V1__REPLY__RESULT_ERROR)
    case .done: try c.write((), &m.done, CALLMESH__V1__REPLY__RESULT_DONE)
    case .attached(let info): try c.write(info, &m.attached, CALLMESH__V1__REPLY__RESULT_ATTACHED)
    case .registered(let info):
      try c.write(info, &m.registered, CALLMESH__V1__REPLY__RESULT_REGISTERED)
    case .call(let state): try c.write(state, &m.call, CALLMESH__V1__REPLY__RESULT_CALL)
    case .answer(let won, let state):
      try c.write((won, state), &m.answer, CALLMESH__V1__REPLY__RESULT_ANSWER)
    case .calls(let calls): try c.write(calls, &m.calls, CALLMESH__V1__REPLY__RESULT_CALLS)
    case .history(let page):
      try c.write(page, &m.history, CALLMESH__V1__REPLY__RESULT_HISTORY)
    case .rules(let rules): try c.write(rules, &m.rules, CALLMESH__V1__REPLY__RESULT_RULES)
    }
  }
}

extension Callmesh__V1__Done: EmptyMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__done__init(m) }
}

extension Callmesh__V1__Attached: Mapping {
  static var blank: AttachedInfo {
    AttachedInfo(session: "", user: "", device: "", pingSeconds: 0, serverTime: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__attached__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.session, &m.session, "session")
    try c.text(&value.user, &m.user, "user")
    try c.device(&value.device, &m.device)
    c.number(&value.pingSeconds, &m.ping_seconds)
    c.time(&value.serverTime, milliseconds: &m.server_time_ms)
    try c.optional(&value.forCall, &m.for_call)
    try c.text(&value.nearer, &m.nearer, "nearer")
    try c.optional(&value.ongoing, &m.ongoing)
    try c.optional(&value.relays, &m.relays)
    try c.text(&value.deviceName, &m.device_name, "deviceName")
  }
}

extension Callmesh__V1__Relays: Mapping {
  static var blank: RelayCredentials {
    RelayCredentials(urls: [], username: "", password: "", expiresAt: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__relays__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.texts(&value.urls, &m.n_urls, &m.urls, "relays.urls")
    try c.text(&value.username, &m.username, "relays.username")
    try c.text(&value.password, &m.password, "relays.password")
    c.time(&value.expiresAt, milliseconds: &m.expires_at_ms)
  }
}
