internal import CCallProto
internal import CallCore

// Frames of devices (device.proto). `FrameRules` checks them afterwards.

extension Callmesh__V1__ClientFrame: Root {
  static var blank: ClientFrame { ClientFrame(id: 0, command: .ping) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__client_frame__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.id, &m.id)
    if C.reads {
      value.command = try command(c, m)
    } else {
      m.command_case = try write(c, value.command, &m)
    }
  }

  private static func command<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> ClientCommand {
    switch m.command_case {
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ATTACH: return .attach(try c.read(m.attach))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_DETACH: return .detach
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_RENEW: return .renew(token: try c.read(m.renew))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_REGISTER:
      return .register(try c.read(m.register_).request)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_UNREGISTER:
      return .unregister(try c.read(m.unregister))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_PLACE:
      let (call, request) = try c.read(m.place)
      return .place(call, request)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ACK: return .ack(try c.read(m.ack))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_PING: return .ping
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CALLS: return .calls
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_HISTORY: return .history(try c.read(m.history))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_HISTORY_READ:
      return .history(try c.read(m.history_read))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_RULES: return .rules(.read)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_SET_RULES:
      return .rules(.write(try c.read(m.set_rules)))
    default:
      let (call, verb) = try verb(c, m)
      return .call(call, verb)
    }
  }

  private static func verb<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> (
    call: CallAddress, verb: CallVerb
  ) {
    switch m.command_case {
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ANSWER:
      let (call, description) = try c.read(m.answer)
      return (call, .answer(description: description))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_PULL:
      let (call, request) = try c.read(m.pull)
      return (call, .pull(request))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_TRANSFER:
      let (call, request) = try c.read(m.transfer)
      return (call, .transfer(request))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL_TRANSFER:
      return (try c.read(m.cancel_transfer), .cancelTransfer)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_DECLINE:
      let (call, scope) = try c.read(m.decline)
      return (call, .decline(scope))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_DESCRIPTION:
      let (call, body) = try c.read(m.description)
      return (call, .signal(.description, body: body))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CANDIDATE:
      let (call, body) = try c.read(m.candidate)
      return (call, .signal(.candidate, body: body))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_INFORMATION:
      let (call, body) = try c.read(m.information)
      return (call, .signal(.information, body: body))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ALERTING: return (try c.read(m.alerting), .alerting)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_BUSY: return (try c.read(m.busy), .busy)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL: return (try c.read(m.cancel), .cancel)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CONNECTED: return (try c.read(m.connected), .connected)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_HANG_UP: return (try c.read(m.hang_up), .hangUp)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_RESUME: return (try c.read(m.resume), .resume)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_QUERY: return (try c.read(m.query), .query)
    default: throw c.failure(.unknownMember("command"))
    }
  }

  private static func write<C: Coder>(_ c: C, _ command: ClientCommand, _ m: inout Self) throws(C
    .Failure) -> Callmesh__V1__ClientFrame__CommandCase
  {
    switch command {
    case .attach(let request):
      try c.write(request, &m.attach, CALLMESH__V1__CLIENT_FRAME__COMMAND_ATTACH)
    case .detach: try c.write((), &m.detach, CALLMESH__V1__CLIENT_FRAME__COMMAND_DETACH)
    case .renew(let token): try c.write(token, &m.renew, CALLMESH__V1__CLIENT_FRAME__COMMAND_RENEW)
    case .register(let request):
      try c.write(
        HTTPBodies.Register(device: nil, request: request), &m.register_,
        CALLMESH__V1__CLIENT_FRAME__COMMAND_REGISTER)
    case .unregister(let device):
      try c.write(device, &m.unregister, CALLMESH__V1__CLIENT_FRAME__COMMAND_UNREGISTER)
    case .place(let call, let request):
      try c.write((call, request), &m.place, CALLMESH__V1__CLIENT_FRAME__COMMAND_PLACE)
    case .ack(let items): try c.write(items, &m.ack, CALLMESH__V1__CLIENT_FRAME__COMMAND_ACK)
    case .call(let call, let verb): try write(c, call, verb, &m)
    case .ping: try c.write((), &m.ping, CALLMESH__V1__CLIENT_FRAME__COMMAND_PING)
    case .calls: try c.write((), &m.calls, CALLMESH__V1__CLIENT_FRAME__COMMAND_CALLS)
    case .history(.list(let before, let limit)):
      try c.write(
        .list(before: before, limit: limit), &m.history,
        CALLMESH__V1__CLIENT_FRAME__COMMAND_HISTORY)
    case .history(.markRead(let cursor)):
      try c.write(
        .markRead(upTo: cursor), &m.history_read, CALLMESH__V1__CLIENT_FRAME__COMMAND_HISTORY_READ)
    // No device says it.
    case .history(.changed): CALLMESH__V1__CLIENT_FRAME__COMMAND__NOT_SET
    case .rules(.read): try c.write((), &m.rules, CALLMESH__V1__CLIENT_FRAME__COMMAND_RULES)
    case .rules(.write(let rules)):
      try c.write(rules, &m.set_rules, CALLMESH__V1__CLIENT_FRAME__COMMAND_SET_RULES)
    }
  }

  private static func write<C: Coder>(
    _ c: C, _ call: CallAddress, _ verb: CallVerb, _ m: inout Self
  ) throws(C.Failure) -> Callmesh__V1__ClientFrame__CommandCase {
    switch verb {
    case .answer(let description):
      try c.write((call, description), &m.answer, CALLMESH__V1__CLIENT_FRAME__COMMAND_ANSWER)
    case .pull(let request):
      try c.write((call, request), &m.pull, CALLMESH__V1__CLIENT_FRAME__COMMAND_PULL)
    case .transfer(let request):
      try c.write((call, request), &m.transfer, CALLMESH__V1__CLIENT_FRAME__COMMAND_TRANSFER)
    case .cancelTransfer:
      try c.write(call, &m.cancel_transfer, CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL_TRANSFER)
    case .decline(let scope):
      try c.write((call, scope), &m.decline, CALLMESH__V1__CLIENT_FRAME__COMMAND_DECLINE)
    case .signal(.description, let body):
      try c.write((call, body), &m.description, CALLMESH__V1__CLIENT_FRAME__COMMAND_DESCRIPTION)
    case .signal(.candidate, let body):
      try c.write((call, body), &m.candidate, CALLMESH__V1__CLIENT_FRAME__COMMAND_CANDIDATE)
    case .signal(.information, let body):
      try c.write((call, body), &m.information, CALLMESH__V1__CLIENT_FRAME__COMMAND_INFORMATION)
    // No version can read it: it is refused as an unknown command.
    case .signal(.unknown, _): CALLMESH__V1__CLIENT_FRAME__COMMAND__NOT_SET
    case .alerting: try c.write(call, &m.alerting, CALLMESH__V1__CLIENT_FRAME__COMMAND_ALERTING)
    case .busy: try c.write(call, &m.busy, CALLMESH__V1__CLIENT_FRAME__COMMAND_BUSY)
    case .cancel: try c.write(call, &m.cancel, CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL)
    case .connected: try c.write(call, &m.connected, CALLMESH__V1__CLIENT_FRAME__COMMAND_CONNECTED)
    case .hangUp: try c.write(call, &m.hang_up, CALLMESH__V1__CLIENT_FRAME__COMMAND_HANG_UP)
    case .resume: try c.write(call, &m.resume, CALLMESH__V1__CLIENT_FRAME__COMMAND_RESUME)
    case .query: try c.write(call, &m.query, CALLMESH__V1__CLIENT_FRAME__COMMAND_QUERY)
    }
  }
}

// MARK: Messages without a content of their own

extension Callmesh__V1__Detach: EmptyMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__detach__init(m) }
}

extension Callmesh__V1__Ping: EmptyMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ping__init(m) }
}

extension Callmesh__V1__Calls: EmptyMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__calls__init(m) }
}

/// A message that names a call and nothing else.
protocol CallMapping: Mapping where Value == CallAddress {
  var call: UnsafeMutablePointer<Callmesh__V1__CallRef>! { get set }
}

extension CallMapping {
  static var blank: CallAddress { Callmesh__V1__CallRef.blank }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    unsafe try c.address(&value, &m.call)
  }
}

extension Callmesh__V1__Alerting: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__alerting__init(m) }
}

extension Callmesh__V1__Busy: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__busy__init(m) }
}

extension Callmesh__V1__Cancel: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__cancel__init(m) }
}

extension Callmesh__V1__Connected: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__connected__init(m) }
}

extension Callmesh__V1__HangUp: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__hang_up__init(m) }
}

extension Callmesh__V1__Resume: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__resume__init(m) }
}

extension Callmesh__V1__Query: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__query__init(m) }
}

// MARK: Messages with fields

extension Callmesh__V1__Attach: Mapping {
  static var blank: AttachRequest { AttachRequest() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__attach__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.token, &m.token, "attach.token")
    try c.text(&value.device, &m.device, "attach.device")
    try c.optionalID(&value.forCall, &m.for_call, "attach.forCall")
    try c.text(&value.deviceName, &m.device_name, "attach.deviceName")
    try c.text(&value.client, &m.client, "attach.client")
    c.flag(&value.wantsNearer, &m.nearer)
    c.flag(&value.onlyPlaces, &m.only_places)
    c.flag(&value.wantsOngoing, &m.ongoing)
    c.flag(&value.wantsHistory, &m.history)
    c.flag(&value.wantsRelays, &m.relays)
  }
}

extension Callmesh__V1__Renew: Mapping {
  static var blank: String { "" }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__renew__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value, &m.token, "renew.token")
  }
}

extension Callmesh__V1__Unregister: Mapping {
  static var blank: DeviceID? { nil }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__unregister__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value, &m.device)
  }
}

extension Callmesh__V1__Place: Mapping {
  typealias Value = (call: CallAddress, request: PlaceRequest)
  static var blank: Value { (Callmesh__V1__CallRef.blank, PlaceRequest(call: .zero)) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__place__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    if C.reads { value.request.setup.call = value.call.call }
    c.number(&value.request.setup.ringTimeoutSeconds, &m.ring_timeout_seconds)
    try c.text(&value.request.setup.description, &m.description, "description")
    try c.array(&value.request.setup.headers, &m.n_headers, &m.headers)
    c.flag(&value.request.setup.video, &m.video)
    try c.text(&value.request.setup.pushData, &m.push_data, "pushData")
  }
}

extension Callmesh__V1__Ack: Mapping {
  static var blank: [AckItem] { [] }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ack__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.array(&value, &m.n_items, &m.items)
  }
}

extension Callmesh__V1__AckItem: Mapping {
  static var blank: AckItem { AckItem(call: Callmesh__V1__CallRef.blank, version: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ack_item__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    // One without a call is about the ongoing calls.
    var call = C.reads || value.call.call == Acknowledgement.ongoingID ? nil : value.call
    try c.optional(&call, &m.call)
    if C.reads, let call { value.call = call }
    c.number(&value.version, &m.version)
  }
}

extension Callmesh__V1__Answer: Mapping {
  static var blank: (call: CallAddress, description: String) { (Callmesh__V1__CallRef.blank, "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__answer__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.text(&value.description, &m.description, "description")
  }
}

extension Callmesh__V1__Pull: Mapping {
  typealias Value = (call: CallAddress, request: PullRequest)
  static var blank: Value { (Callmesh__V1__CallRef.blank, PullRequest(from: "")) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__pull__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.device(&value.request.from, &m.from)
    try c.text(&value.request.description, &m.description, "description")
  }
}

extension Callmesh__V1__Decline: Mapping {
  typealias Value = (call: CallAddress, scope: DeclineScope)
  static var blank: Value { (Callmesh__V1__CallRef.blank, .everywhere) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__decline__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.known(&value.scope, &m.scope, "scope")
  }
}

extension Callmesh__V1__Signal: Mapping {
  static var blank: (call: CallAddress, body: String) { (Callmesh__V1__CallRef.blank, "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__signal__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.text(&value.body, &m.body, "body")
  }
}
