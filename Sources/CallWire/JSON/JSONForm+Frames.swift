internal import CallCore

extension JSONForm {
  // MARK: What devices say

  static func bytes(_ frame: ClientFrame) -> [UInt8] {
    JSONWriter.object { json in
      if frame.id > 0 { json.member("id", frame.id) }
      write(frame.command, into: &json)
    }
  }

  private static func write(_ command: ClientCommand, into json: inout JSONWriter) {
    switch command {
    case .attach(let request): json.object("attach") { fields(request, into: &$0) }
    case .detach: json.object("detach") { _ in }
    case .renew(let token): json.object("renew") { $0.member("token", token) }
    case .register(let request): json.object("register") { fields(request, into: &$0) }
    case .unregister(let device):
      json.object("unregister") { $0.optional("device", device?.text ?? "") }
    case .place(let call, let request):
      json.object("place") { fields(call, request, into: &$0) }
    case .ack(let items):
      json.object("ack") {
        $0.array("items", items) { json, item in
          json.element {
            write(item.call, into: &$0)
            $0.member("version", item.version)
          }
        }
      }
    case .answer(let call, let description):
      json.object("answer") {
        write(call, into: &$0)
        $0.optional("description", description)
      }
    case .decline(let call, let scope):
      json.object("decline") {
        write(call, into: &$0)
        $0.member("scope", scope.name)
      }
    case .signal(let call, let kind, let body):
      json.object(kind == .description ? "description" : "candidate") {
        write(call, into: &$0)
        $0.member("body", body)
      }
    case .alerting(let call): json.object("alerting") { write(call, into: &$0) }
    case .busy(let call): json.object("busy") { write(call, into: &$0) }
    case .cancel(let call): json.object("cancel") { write(call, into: &$0) }
    case .connected(let call): json.object("connected") { write(call, into: &$0) }
    case .hangUp(let call): json.object("hangUp") { write(call, into: &$0) }
    case .resume(let call): json.object("resume") { write(call, into: &$0) }
    case .query(let call): json.object("query") { write(call, into: &$0) }
    case .ping: json.object("ping") { _ in }
    case .calls: json.object("calls") { _ in }
    }
  }

  private static func write(_ call: CallAddress, into json: inout JSONWriter) {
    write(call.call, callee: call.callee, into: &json)
  }

  private static func fields(_ request: AttachRequest, into json: inout JSONWriter) {
    json.optional("token", request.token)
    json.optional("device", request.device)
    if let call = request.forCall { json.member("forCall", call.description) }
    json.optional("deviceName", request.deviceName)
    json.optional("client", request.client)
  }

  private static func fields(
    _ call: CallAddress, _ request: PlaceRequest, into json: inout JSONWriter
  ) {
    write(call, into: &json)
    if request.ringTimeoutSeconds > 0 {
      json.member("ringTimeoutSeconds", request.ringTimeoutSeconds)
    }
    json.optional("description", request.description)
    write(request.headers, into: &json)
    json.optional("video", request.video)
  }

  // MARK: What edges say

  static func bytes(_ frame: ServerFrame) -> [UInt8] {
    JSONWriter.object { json in
      switch frame {
      case .reply(let id, let reply):
        json.object("reply") {
          $0.member("id", id)
          write(reply, into: &$0)
        }
      case .delivery(let delivery): json.object("delivery") { fields(delivery, into: &$0) }
      case .notice(let notice): json.object("notice") { fields(notice, into: &$0) }
      }
    }
  }

  private static func write(_ reply: ServerReply, into json: inout JSONWriter) {
    switch reply {
    case .error(let error): json.object("error") { fields(error, into: &$0) }
    case .done: json.object("done") { _ in }
    case .attached(let info): json.object("attached") { fields(info, into: &$0) }
    case .registered(let info): json.object("registered") { fields(info, into: &$0) }
    case .call(let state): json.object("call") { fields(state, into: &$0) }
    case .answer(let won, let state):
      json.object("answer") {
        $0.member("won", won)
        $0.object("call") { fields(state, into: &$0) }
      }
    case .calls(let live):
      json.object("calls") {
        write("placed", live.placed, into: &$0)
        write("received", live.received, into: &$0)
      }
    }
  }

  private static func write(
    _ key: StaticString, _ states: [CallState], into json: inout JSONWriter
  ) {
    guard !states.isEmpty else { return }
    json.array(key, states) { json, state in json.element { fields(state, into: &$0) } }
  }

  private static func fields(_ info: AttachedInfo, into json: inout JSONWriter) {
    json.member("session", info.session)
    json.member("user", info.user)
    json.member("device", info.device.text)
    json.member("pingSeconds", info.pingSeconds)
    json.member("serverTimeMs", info.serverTime.milliseconds)
    if let state = info.forCall { json.object("forCall") { fields(state, into: &$0) } }
  }

  private static func fields(_ delivery: Delivery, into json: inout JSONWriter) {
    write(delivery.call, callee: delivery.callee, into: &json)
    json.member("version", delivery.version)
    json.member("atMs", delivery.at.milliseconds)
    if delivery.after > 0 { json.member("after", delivery.after) }
    switch delivery.event {
    case .invite(let invite): json.object("invite") { fields(invite, into: &$0) }
    case .ringing(let by): json.object("ringing") { write("by", by, into: &$0) }
    case .answered(let answered):
      json.object("answered") {
        write("by", answered.by, into: &$0)
        $0.optional("description", answered.description)
        write(answered.signals, into: &$0)
      }
    case .stop(let stop):
      json.object("stop") {
        $0.member("reason", stop.reason.name)
        if let by = stop.by { write("by", by, into: &$0) }
        $0.optional("missed", stop.missed)
      }
    case .signal(let signal): json.object("signal") { fields(signal, into: &$0) }
    }
  }

  private static func fields(_ invite: Invite, into json: inout JSONWriter) {
    write("caller", invite.caller, into: &json)
    json.member("deadlineMs", invite.deadline.milliseconds)
    json.optional("video", invite.video)
    json.optional("description", invite.description)
    write(invite.headers, into: &json)
    write(invite.signals, into: &json)
  }
}
