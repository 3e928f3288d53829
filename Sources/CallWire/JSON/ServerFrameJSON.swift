internal import CallCore

/// What edges say, read by clients.
struct ServerFrameJSON: Decodable {
  var reply: ReplyJSON?
  var delivery: DeliveryJSON?
  var notice: NoticeJSON?

  func frame() throws(Fault) -> ServerFrame {
    if let reply { return .reply(id: reply.id ?? 0, try reply.reply()) }
    if let delivery { return .delivery(try delivery.delivery()) }
    if let notice { return .notice(try notice.notice()) }
    throw .unknownMember("message")
  }
}

struct ErrorJSON: Decodable {
  var code: UInt32?
  var message: String?
  var retryAfterMs: UInt32?

  var error: CallError {
    CallError(
      CallError.Code(wire: code ?? 0), message ?? "", retryAfterMilliseconds: retryAfterMs ?? 0)
  }
}

struct NoticeJSON: Decodable {
  var kind: String?
  var message: String?
  var retryAfterMs: UInt32?

  func notice() throws(Fault) -> Notice {
    guard kind != nil else { throw .missing("kind") }
    return Notice(
      kind: try Notice.Kind(json: kind, "kind", absent: .goAway), message: message ?? "",
      retryAfterMilliseconds: retryAfterMs ?? 0)
  }
}

struct ReplyJSON: Decodable {
  var id: UInt64?
  var error: ErrorJSON?
  var done: EmptyJSON?
  var attached: AttachedJSON?
  var registered: RegisteredJSON?
  var call: CallStateJSON?
  var answer: AnswerResultJSON?

  func reply() throws(Fault) -> ServerReply {
    if let error { return .error(error.error) }
    if done != nil { return .done }
    if let attached { return .attached(try attached.info()) }
    if let registered {
      return .registered(
        device: DeviceID(registered.device ?? ""),
        expiresAt: Unpacker.time(milliseconds: registered.expiresAtMs ?? 0),
        removed: (registered.removedDevices ?? []).map { DeviceID($0) })
    }
    if let call { return .call(try call.state()) }
    if let answer {
      guard let call = answer.call else { throw .missing("answer.call") }
      return .answer(won: answer.won ?? false, try call.state())
    }
    throw .unknownMember("result")
  }
}

struct RegisteredJSON: Decodable {
  var device: String?
  var expiresAtMs: Int64?
  var removedDevices: [String]?
}

struct AnswerResultJSON: Decodable {
  var won: Bool?
  var call: CallStateJSON?
}

struct AttachedJSON: Decodable {
  var session: String?
  var user: String?
  var device: String?
  var pingSeconds: UInt32?
  var serverTimeMs: Int64?
  var forCall: CallStateJSON?

  func info() throws(Fault) -> AttachedInfo {
    AttachedInfo(
      session: session ?? "", user: user ?? "", device: DeviceID(device ?? ""),
      pingSeconds: pingSeconds ?? 0, serverTime: Unpacker.time(milliseconds: serverTimeMs ?? 0),
      forCall: try forCall?.state())
  }
}

struct DeliveryJSON: Decodable {
  struct InviteJSON: Decodable {
    var caller: PartyJSON?
    var deadlineMs: Int64?
    var video: Bool?
    var description: String?
    var headers: [HeaderJSON]?
    var signals: [SignalJSON]?
  }
  struct RingingJSON: Decodable { var by: PartyJSON? }
  struct AnsweredJSON: Decodable {
    var by: PartyJSON?
    var description: String?
    var signals: [SignalJSON]?
  }
  struct StopJSON: Decodable {
    var reason: String?
    var by: PartyJSON?
    var missed: Bool?
  }

  var call: CallRefJSON?
  var version: UInt64?
  var atMs: Int64?
  var invite: InviteJSON?
  var ringing: RingingJSON?
  var answered: AnsweredJSON?
  var stop: StopJSON?
  var signal: SignalJSON?

  func delivery() throws(Fault) -> Delivery {
    let address = try CallRefJSON.there(call)
    return Delivery(
      call: address.call, callee: address.callee, version: version ?? 0,
      at: Unpacker.time(milliseconds: atMs ?? 0), event: try event())
  }

  private func event() throws(Fault) -> Delivery.Event {
    if let invite {
      return .invite(
        Invite(
          caller: try PartyJSON.there(invite.caller, "caller"),
          deadline: Unpacker.time(milliseconds: invite.deadlineMs ?? 0),
          video: invite.video ?? false, description: invite.description ?? "",
          headers: HeaderJSON.headers(invite.headers),
          signals: try SignalJSON.signals(invite.signals)))
    }
    if let ringing { return .ringing(by: try PartyJSON.there(ringing.by, "by")) }
    if let answered {
      return .answered(
        Answered(
          by: try PartyJSON.there(answered.by, "by"), description: answered.description ?? "",
          signals: try SignalJSON.signals(answered.signals)))
    }
    if let stop {
      guard stop.reason != nil else { throw .missing("reason") }
      return .stop(
        Stop(
          reason: try EndReason(json: stop.reason, "reason", absent: .failed),
          by: stop.by?.party, missed: stop.missed ?? false))
    }
    if let signal { return .signal(try signal.signal()) }
    throw .unknownMember("event")
  }
}
