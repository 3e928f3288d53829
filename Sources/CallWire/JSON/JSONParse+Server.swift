internal import CallCore

/// What edges say, read by clients.
extension JSONParse {
  static func serverFrame(_ json: inout JSONCursor) throws(Fault) -> ServerFrame {
    var frame: ServerFrame?
    try json.object("") { (json, key) throws(Fault) in
      switch key {
      case "reply": frame = try reply(&json)
      case "delivery": frame = .delivery(try delivery(&json))
      case "notice": frame = .notice(try notice(&json))
      default: try json.skip()
      }
    }
    guard let frame else { throw .unknownMember("message") }
    return frame
  }

  // MARK: Replies

  private static func reply(_ json: inout JSONCursor) throws(Fault) -> ServerFrame {
    var id: UInt64 = 0
    var result: ServerReply?
    try json.object("reply") { (json, key) throws(Fault) in
      switch key {
      case "id": id = try json.number("id")
      case "error": result = .error(try error(&json))
      case "done":
        try json.skip()
        result = .done
      case "attached": result = .attached(try attached(&json))
      case "registered": result = .registered(try registered(&json, "registered"))
      case "call": result = .call(try state(&json, "call"))
      case "answer": result = try answer(&json)
      case "calls": result = .calls(try liveCalls(&json))
      default: try json.skip()
      }
    }
    guard let result else { throw .unknownMember("result") }
    return .reply(id: id, result)
  }

  static func error(_ json: inout JSONCursor) throws(Fault) -> CallError {
    var code: UInt32 = 0
    var message = ""
    var retryAfter: UInt32 = 0
    try json.object("error") { (json, key) throws(Fault) in
      switch key {
      case "code": code = try json.number("code")
      case "message": message = try json.text("message")
      case "retryAfterMs": retryAfter = try json.number("retryAfterMs")
      default: try json.skip()
      }
    }
    return CallError(
      CallError.Code(wire: code), message, retryAfterMilliseconds: retryAfter)
  }

  private static func attached(_ json: inout JSONCursor) throws(Fault) -> AttachedInfo {
    var info = AttachedInfo(
      session: "", user: "", device: "", pingSeconds: 0, serverTime: Timestamp(microseconds: 0))
    try json.object("attached") { (json, key) throws(Fault) in
      switch key {
      case "session": info.session = try json.text("session")
      case "user": info.user = try json.text("user")
      case "device": info.device = DeviceID(try json.text("device"))
      case "pingSeconds": info.pingSeconds = try json.number("pingSeconds")
      case "serverTimeMs": info.serverTime = try time(&json, "serverTimeMs")
      case "forCall": info.forCall = try state(&json, "forCall")
      default: try json.skip()
      }
    }
    return info
  }

  static func registered(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> RegisteredInfo {
    var info = RegisteredInfo(device: "", expiresAt: Timestamp(microseconds: 0))
    try json.object(field) { (json, key) throws(Fault) in
      switch key {
      case "device": info.device = DeviceID(try json.text("device"))
      case "expiresAtMs": info.expiresAt = try time(&json, "expiresAtMs")
      case "removedDevices":
        try json.array("removedDevices") { (json) throws(Fault) in
          info.removed.append(DeviceID(try json.text("removedDevices")))
        }
      case "capabilities":
        // One that a newer edge knows is nothing that this client could be asked to take.
        try json.array("capabilities") { (json) throws(Fault) in
          info.capabilities.formUnion(PushCapabilities(name: try json.text("capabilities")) ?? [])
        }
      default: try json.skip()
      }
    }
    return info
  }

  private static func answer(_ json: inout JSONCursor) throws(Fault) -> ServerReply {
    var won = false
    var call: CallState?
    try json.object("answer") { (json, key) throws(Fault) in
      switch key {
      case "won": won = try json.flag("won")
      case "call": call = try state(&json, "answer.call")
      default: try json.skip()
      }
    }
    return .answer(won: won, try there(call, "answer.call"))
  }

  private static func liveCalls(_ json: inout JSONCursor) throws(Fault) -> LiveCalls {
    var live = LiveCalls()
    try json.object("calls") { (json, key) throws(Fault) in
      switch key {
      case "placed":
        try json.array("placed") { (json) throws(Fault) in
          live.placed.append(try state(&json, "placed"))
        }
      case "received":
        try json.array("received") { (json) throws(Fault) in
          live.received.append(try state(&json, "received"))
        }
      default: try json.skip()
      }
    }
    return live
  }

  static func state(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> CallState {
    var call: CallAddress?
    var state = CallState(call: CallID(high: 0, low: 0), callee: "", phase: .unknown)
    try json.object(field) { (json, key) throws(Fault) in
      switch key {
      case "call": call = try address(&json)
      case "phase": state.phase = try named(&json, "phase")
      case "version": state.version = try json.number("version")
      case "reason": state.reason = try named(&json, "reason")
      case "by": state.by = try party(&json, "by")
      case "atMs": state.at = try time(&json, "atMs")
      case "deadlineMs":
        let deadline = try time(&json, "deadlineMs")
        state.deadline = deadline.microseconds == 0 ? nil : deadline
      case "missed": state.missed = try json.flag("missed")
      default: try json.skip()
      }
    }
    let whole = try there(call, "call")
    state.call = whole.call
    state.callee = whole.callee
    return state
  }

  private static func notice(_ json: inout JSONCursor) throws(Fault) -> Notice {
    var kind: Notice.Kind?
    var message = ""
    var retryAfter: UInt32 = 0
    try json.object("notice") { (json, key) throws(Fault) in
      switch key {
      case "kind":
        let name = try json.text("kind")
        kind = Notice.Kind.allCases.first { $0.name == name } ?? .unknown
      case "message": message = try json.text("message")
      case "retryAfterMs": retryAfter = try json.number("retryAfterMs")
      default: try json.skip()
      }
    }
    return Notice(
      kind: try there(kind, "kind"), message: message, retryAfterMilliseconds: retryAfter)
  }
}
