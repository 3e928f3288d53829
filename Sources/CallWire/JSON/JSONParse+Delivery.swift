internal import CallCore

/// What clients are told of calls.
extension JSONParse {
  static func delivery(_ json: inout JSONCursor) throws(Fault) -> Delivery {
    var call: CallAddress?
    var version: UInt64 = 0
    var at = Timestamp(microseconds: 0)
    var after: UInt64 = 0
    var event: Delivery.Event?
    try json.object("delivery") { (json, key) throws(Fault) in
      switch key {
      case "call": call = try address(&json)
      case "version": version = try json.number("version")
      case "atMs": at = try time(&json, "atMs")
      case "after": after = try json.number("after")
      case "invite": event = .invite(try invite(&json))
      case "ringing": event = .ringing(by: try ringing(&json))
      case "answered": event = .answered(try answered(&json))
      case "stop": event = .stop(try stop(&json))
      case "signal": event = .signal(try signal(&json))
      default: try json.skip()
      }
    }
    let whole = try there(call, "call")
    guard let event else { throw .unknownMember("event") }
    var delivery = Delivery(
      call: whole.call, callee: whole.callee, version: version, at: at, event: event)
    delivery.after = after
    return delivery
  }

  private static func invite(_ json: inout JSONCursor) throws(Fault) -> Invite {
    var caller: Party?
    var invite = Invite(
      caller: Party(user: "", device: ""), deadline: Timestamp(microseconds: 0))
    try json.object("invite") { (json, key) throws(Fault) in
      switch key {
      case "caller": caller = try party(&json, "caller")
      case "deadlineMs": invite.deadline = try time(&json, "deadlineMs")
      case "video": invite.video = try json.flag("video")
      case "description": invite.description = try json.text("description")
      case "headers": invite.headers = try headers(&json)
      case "signals": invite.signals = try signals(&json)
      default: try json.skip()
      }
    }
    invite.caller = try there(caller, "caller")
    return invite
  }

  private static func ringing(_ json: inout JSONCursor) throws(Fault) -> Party {
    var by: Party?
    try json.object("ringing") { (json, key) throws(Fault) in
      if "by" ~= key { by = try party(&json, "by") } else { try json.skip() }
    }
    return try there(by, "by")
  }

  private static func answered(_ json: inout JSONCursor) throws(Fault) -> Answered {
    var by: Party?
    var answered = Answered(by: Party(user: "", device: ""))
    try json.object("answered") { (json, key) throws(Fault) in
      switch key {
      case "by": by = try party(&json, "by")
      case "description": answered.description = try json.text("description")
      case "signals": answered.signals = try signals(&json)
      default: try json.skip()
      }
    }
    answered.by = try there(by, "by")
    return answered
  }

  private static func stop(_ json: inout JSONCursor) throws(Fault) -> Stop {
    var reason: EndReason?
    var by: Party?
    var missed = false
    try json.object("stop") { (json, key) throws(Fault) in
      switch key {
      case "reason": reason = try named(&json, "reason")
      case "by": by = try party(&json, "by")
      case "missed": missed = try json.flag("missed")
      default: try json.skip()
      }
    }
    return Stop(reason: try there(reason, "reason"), by: by, missed: missed)
  }
}
