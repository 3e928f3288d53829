internal import CallCore

/// What devices say. `FrameRules` checks sizes and contents afterwards, for both encodings.
extension JSONParse {
  static func clientFrame(_ json: inout JSONCursor) throws(Fault) -> ClientFrame {
    var id: UInt64 = 0
    var command: ClientCommand?
    try json.object("") { (json, key) throws(Fault) in
      if "id" ~= key {
        id = try json.number("id")
      } else if command == nil {
        command = try self.command(key, &json)
      } else {
        try nothingMore(key, &json)
      }
    }
    guard let command else { throw .unknownMember("command") }
    return ClientFrame(id: id, command: command)
  }

  /// Behind the command stands nothing that is one, whatever it holds.
  private static func nothingMore(_ key: JSONKey, _ json: inout JSONCursor) throws(Fault) {
    do throws(Fault) {
      if try command(key, &json) == nil { return }
    } catch .malformed {
      throw .malformed
    } catch {}  // It is a command, and not even a good one.
    throw .secondCommand
  }

  /// The number of a frame whose command could not be read, as far as the text is JSON; 0 where
  /// there is none.
  static func frameID(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
    var json = JSONCursor(bytes)
    var id: UInt64 = 0
    do throws(Fault) {
      try json.object("") { (json, key) throws(Fault) in
        if "id" ~= key { id = try json.number("id") } else { try json.skip() }
      }
    } catch {}  // It is refused anyhow; what came before the fault counts.
    return id
  }

  /// nil: a member that nobody knows, skipped.
  private static func command(
    _ key: JSONKey, _ json: inout JSONCursor
  ) throws(Fault) -> ClientCommand? {
    switch key {
    case "ack": return try ack(&json)
    case "alerting": return .alerting(try bare(&json, "alerting"))
    case "answer": return try answer(&json)
    case "attach": return try attach(&json)
    case "busy": return .busy(try bare(&json, "busy"))
    case "cancel": return .cancel(try bare(&json, "cancel"))
    case "candidate": return try signal(&json, .candidate, "candidate")
    case "connected": return .connected(try bare(&json, "connected"))
    case "decline": return try decline(&json)
    case "description": return try signal(&json, .description, "description")
    case "calls": return try empty(&json, "calls", .calls)
    case "detach": return try empty(&json, "detach", .detach)
    case "hangUp": return .hangUp(try bare(&json, "hangUp"))
    case "ping": return try empty(&json, "ping", .ping)
    case "place": return try place(&json)
    case "query": return .query(try bare(&json, "query"))
    case "renew": return try renew(&json)
    case "register": return .register(try register(&json, "register").request)
    case "resume": return .resume(try bare(&json, "resume"))
    case "unregister": return try unregister(&json)
    default:
      try json.skip()
      return nil
    }
  }

  /// Commands without fields.
  private static func empty(
    _ json: inout JSONCursor, _ field: StaticString, _ command: ClientCommand
  ) throws(Fault) -> ClientCommand {
    try json.object(field) { (json, _) throws(Fault) in try json.skip() }
    return command
  }

  /// Commands that name a call and nothing else.
  private static func bare(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> CallAddress {
    var call: CallAddress?
    try json.object(field) { (json, key) throws(Fault) in
      if "call" ~= key { call = try address(&json) } else { try json.skip() }
    }
    return try there(call, "call")
  }

  private static func attach(_ json: inout JSONCursor) throws(Fault) -> ClientCommand {
    var request = AttachRequest()
    try json.object("attach") { (json, key) throws(Fault) in
      switch key {
      case "token": request.token = try json.text("attach.token")
      case "device": request.device = try json.text("attach.device")
      case "forCall": request.forCall = try optionalID(&json, "attach.forCall")
      case "deviceName": request.deviceName = try json.text("attach.deviceName")
      case "client": request.client = try json.text("attach.client")
      default: try json.skip()
      }
    }
    return .attach(request)
  }

  private static func renew(_ json: inout JSONCursor) throws(Fault) -> ClientCommand {
    var token = ""
    try json.object("renew") { (json, key) throws(Fault) in
      if "token" ~= key { token = try json.text("renew.token") } else { try json.skip() }
    }
    return .renew(token: token)
  }

  private static func unregister(_ json: inout JSONCursor) throws(Fault) -> ClientCommand {
    var device = ""
    try json.object("unregister") { (json, key) throws(Fault) in
      if "device" ~= key { device = try json.text("device") } else { try json.skip() }
    }
    return .unregister(device.isEmpty ? nil : DeviceID(device))
  }

  private static func place(_ json: inout JSONCursor) throws(Fault) -> ClientCommand {
    var call: CallAddress?
    var request = PlaceRequest(call: CallID(high: 0, low: 0))
    try json.object("place") { (json, key) throws(Fault) in
      switch key {
      case "call": call = try address(&json)
      case "ringTimeoutSeconds":
        request.ringTimeoutSeconds = try json.number("ringTimeoutSeconds")
      case "description": request.description = try json.text("description")
      case "headers": request.headers = try headers(&json)
      case "video": request.video = try json.flag("video")
      default: try json.skip()
      }
    }
    let whole = try there(call, "call")
    request.call = whole.call
    return .place(whole, request)
  }

  private static func ack(_ json: inout JSONCursor) throws(Fault) -> ClientCommand {
    var items: [AckItem] = []
    try json.object("ack") { (json, key) throws(Fault) in
      guard "items" ~= key else { return try json.skip() }
      try json.array("items") { (json) throws(Fault) in items.append(try ackItem(&json)) }
    }
    return .ack(items)
  }

  private static func ackItem(_ json: inout JSONCursor) throws(Fault) -> AckItem {
    var call: CallAddress?
    var version: UInt64 = 0
    try json.object("items") { (json, key) throws(Fault) in
      switch key {
      case "call": call = try address(&json)
      case "version": version = try json.number("version")
      default: try json.skip()
      }
    }
    return AckItem(call: try there(call, "call"), version: version)
  }

  private static func answer(_ json: inout JSONCursor) throws(Fault) -> ClientCommand {
    var call: CallAddress?
    var description = ""
    try json.object("answer") { (json, key) throws(Fault) in
      switch key {
      case "call": call = try address(&json)
      case "description": description = try json.text("description")
      default: try json.skip()
      }
    }
    return .answer(try there(call, "call"), description: description)
  }

  private static func decline(_ json: inout JSONCursor) throws(Fault) -> ClientCommand {
    var call: CallAddress?
    var scope = DeclineScope.everywhere
    try json.object("decline") { (json, key) throws(Fault) in
      switch key {
      case "call": call = try address(&json)
      case "scope": scope = try named(&json, "scope")
      default: try json.skip()
      }
    }
    return .decline(try there(call, "call"), scope)
  }

  private static func signal(
    _ json: inout JSONCursor, _ kind: SignalKind, _ field: StaticString
  ) throws(Fault) -> ClientCommand {
    var call: CallAddress?
    var body = ""
    try json.object(field) { (json, key) throws(Fault) in
      switch key {
      case "call": call = try address(&json)
      case "body": body = try json.text("body")
      default: try json.skip()
      }
    }
    return .signal(try there(call, "call"), kind, body: body)
  }
}
