import CallCore
import CallWire

/// Draws valid messages of every kind from a seed. Times are whole milliseconds where the wire has
/// milliseconds.
struct Generator: RandomNumberGenerator {
  private var seed: UInt64
  init(seed: UInt64) { self.seed = seed }

  mutating func next() -> UInt64 {
    seed &+= 0x9e37_79b9_7f4a_7c15
    var z = seed
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }

  // MARK: Parts

  mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

  mutating func one<Value: CaseIterable>(of type: Value.Type) -> Value {
    type.allCases.randomElement(using: &self)!
  }

  /// Half of the time.
  mutating func maybe<Value>(_ value: (inout Generator) -> Value) -> Value? {
    chance(50) ? value(&self) : nil
  }

  mutating func number() -> UInt64 {
    next() & ((1 << UInt64.random(in: 0...53, using: &self)) - 1)
  }

  mutating func call() -> CallID { CallID(high: next(), low: next()) }

  private static let letters = Array("abcxyz019 -_./@+äßЖ日🦊\"\\'<>&{}")

  /// Printable text of up to `count` characters.
  mutating func text(_ count: Int) -> String {
    let length = Int.random(in: 0...count, using: &self)
    return String((0..<length).map { _ in Self.letters.randomElement(using: &self)! })
  }

  /// Text that an id may end with: every space stands between two other characters.
  private mutating func rest(_ count: Int) -> String {
    text(count).split(separator: " ").joined(separator: " ")
  }

  mutating func user() -> String { "u" + rest(20) }
  mutating func device() -> DeviceID { DeviceID("d" + rest(12)) }

  /// Opaque text, sometimes long, with line ends and other control characters.
  mutating func body() -> String {
    var body = text(30)
    if chance(20) { body += "\r\n\t\u{1}\u{7f}\u{2028}" }
    if chance(5) { body += String(repeating: "v=0 ", count: Int.random(in: 1...500, using: &self)) }
    return body
  }

  mutating func list<Element>(_ most: Int, _ element: (inout Generator) -> Element) -> [Element] {
    (0..<Int.random(in: 0...most, using: &self)).map { _ in element(&self) }
  }

  mutating func milliseconds() -> Timestamp {
    Timestamp(microseconds: Int64.random(in: 1...4_000_000_000_000, using: &self) * 1000)
  }
  mutating func microseconds() -> Timestamp {
    Timestamp(microseconds: Int64.random(in: 1...4_000_000_000_000_000, using: &self))
  }

  mutating func headers() -> [CustomHeader] {
    list(4) { CustomHeader(name: "X-" + $0.text(5), value: $0.body().prefix(100).description) }
  }

  mutating func party() -> Party {
    Party(user: user(), device: device(), deviceName: text(10), name: text(10))
  }

  mutating func signal() -> Signal {
    Signal(index: number(), kind: one(of: SignalKind.self), body: body())
  }

  mutating func state() -> CallState {
    CallState(
      call: call(), callee: user(), phase: one(of: CallPhase.self), version: number(),
      reason: maybe { $0.one(of: EndReason.self) }, by: maybe { $0.party() }, at: milliseconds(),
      deadline: maybe { $0.milliseconds() }, missed: chance(50), survivor: maybe { $0.call() },
      unreachable: maybe { $0.one(of: UnreachableCause.self) })
  }

  mutating func liveCalls() -> LiveCalls {
    LiveCalls(placed: list(3) { $0.state() }, received: list(3) { $0.state() })
  }

  /// In the form in which tokens are kept.
  mutating func token(voip: Bool) -> PushToken {
    switch voip ? 0 : Int.random(in: 0..<3, using: &self) {
    case 0:
      let digits = (0..<Int.random(in: 32...100, using: &self)).map { _ in
        String(256 + (next() & 255), radix: 16).dropFirst()
      }
      return PushToken(
        provider: .apns, environment: chance(50) ? "production" : "sandbox",
        topic: "org.example.app-\(next() & 7)" + (voip ? ".voip" : ""), token: digits.joined())
    case 1:
      return PushToken(
        provider: .fcm, environment: "", topic: chance(50) ? "project-1" : "",
        token: "t" + text(40) + "t")
    default:
      let point = [0x04] + (0..<64).map { _ in UInt8(truncatingIfNeeded: next()) }
      let secret = (0..<16).map { _ in UInt8(truncatingIfNeeded: next()) }
      let json =
        #"{"endpoint":"https://push.example/\#(next())","keys":{"auth":""#
        + Base64URL.text(secret) + #"","p256dh":""# + Base64URL.text(point) + #""}}"#
      return PushToken(
        provider: .webPush, environment: "", topic: "https://push.example", token: json)
    }
  }

  mutating func capabilities() -> PushCapabilities {
    PushCapabilities(rawValue: UInt32(truncatingIfNeeded: next() & 31))
  }

  mutating func registration() -> RegistrationRequest {
    RegistrationRequest(
      deviceName: text(10), voipToken: maybe { $0.token(voip: true) },
      alertToken: maybe { $0.token(voip: false) },
      dialect: chance(50) ? one(of: PushDialect.self).rawValue : "", sdkName: text(5),
      sdkVersion: text(5), capabilities: maybe { $0.capabilities() })
  }

  mutating func error() -> CallError {
    CallError(
      one(of: CallError.Code.self), maybe { $0.text(30) },
      retryAfterMilliseconds: UInt32(truncatingIfNeeded: next()))
  }

  mutating func notice() -> Notice {
    Notice(
      kind: Notice.Kind.allCases.filter { $0 != .unknown }.randomElement(using: &self)!,
      message: text(20), retryAfterMilliseconds: UInt32(truncatingIfNeeded: number()),
      nearer: chance(30) ? text(20) : "")
  }

  mutating func event(_ kind: Int) -> Delivery.Event {
    switch kind {
    case 0:
      .invite(invite())
    case 1: .ringing(by: party())
    case 2: .answered(Answered(by: party(), description: body(), signals: list(3) { $0.signal() }))
    case 3:
      .stop(
        Stop(
          reason: one(of: EndReason.self), by: maybe { $0.party() }, missed: chance(50),
          survivor: maybe { $0.call() }, unreachable: maybe { $0.one(of: UnreachableCause.self) }))
    case 4:
      .moved(Moved(to: party(), description: body(), number: UInt32(truncatingIfNeeded: number())))
    case 5:
      .transfer(
        TransferNews(
          to: user(), number: UInt32(truncatingIfNeeded: number()),
          reason: maybe { $0.one(of: EndReason.self) }, by: maybe { $0.party() }))
    case 6: .ringsUntil(milliseconds())
    default: .signal(signal())
    }
  }
  static let eventKinds = 8

  private mutating func invite() -> Invite {
    var invite = Invite(
      caller: party(), deadline: milliseconds(), video: chance(50), description: body(),
      headers: headers(), pushData: body(), signals: list(3) { $0.signal() },
      isSecondCall: chance(50), divertedBy: chance(50) ? user() : "")
    invite.isSecondSide = chance(20)
    invite.merged = maybe { $0.call() }
    invite.transferredBy = maybe { $0.party() }
    invite.consulted = maybe { $0.consulted() }
    return invite
  }

  mutating func consulted() -> ConsultedCall { ConsultedCall(call: call(), callee: user()) }

  mutating func transferRequest() -> TransferRequest {
    let device = maybe { $0.device() }
    return TransferRequest(
      to: user(), device: device, consulted: device != nil && chance(50) ? consulted() : nil)
  }

  mutating func delivery(_ kind: Int? = nil) -> Delivery {
    let kind = kind ?? Int.random(in: 0..<Self.eventKinds, using: &self)
    var delivery = Delivery(
      call: call(), callee: user(), version: number(), at: milliseconds(), event: event(kind))
    if chance(30) { delivery.after = number() }
    return delivery
  }
}

/// Whole frames of devices and edges.
extension Generator {
  static let clientKinds = 12 + verbKinds

  static let verbKinds = 16

  mutating func verb(_ kind: Int) -> CallVerb {
    switch kind {
    case 0: .alerting
    case 1: .answer(description: body())
    case 2: .decline(.everywhere)
    case 3: .decline(.here)
    case 4: .busy
    case 5: .cancel
    case 6: .connected
    case 7: .hangUp
    case 8: .signal(.description, body: body())
    case 9: .signal(.candidate, body: body())
    case 10: .signal(.information, body: body())
    case 11: .resume
    case 12: .pull(PullRequest(from: device(), description: body()))
    case 13: .transfer(transferRequest())
    case 14: .cancelTransfer
    default: .query
    }
  }

  mutating func address() -> CallAddress {
    CallAddress(callee: chance(50) ? user() : "", call: call())
  }

  mutating func clientFrame(_ kind: Int? = nil) -> ClientFrame {
    let kind = kind ?? Int.random(in: 0..<Self.clientKinds, using: &self)
    return ClientFrame(id: number() | 1, command: command(kind))
  }

  private mutating func command(_ kind: Int) -> ClientCommand {
    let call = address()
    switch kind {
    case 0:
      return .attach(
        AttachRequest(
          token: text(40), device: chance(50) ? device().text : "",
          forCall: chance(50) ? self.call() : nil, deviceName: text(10), client: text(10),
          wantsNearer: chance(50), onlyPlaces: chance(50), wantsOngoing: chance(50),
          wantsHistory: chance(50), wantsRelays: chance(50)))
    case 1: return .detach
    case 2: return .register(registration())
    case 3: return .unregister(maybe { $0.device() })
    case 4:
      return .place(
        call,
        PlaceRequest(
          call: call.call, ringTimeoutSeconds: UInt32(truncatingIfNeeded: number()),
          description: body(), headers: headers(), video: chance(50),
          pushData: String(body().prefix(200))))
    case 5:
      return .ack(
        [AckItem(call: call, version: number())]
          + list(5) {
            $0.chance(20)
              ? AckItem(ongoing: $0.number())
              : AckItem(call: $0.address(), version: $0.number())
          })
    case 6: return .ping
    case 7: return .calls
    case 8: return .renew(token: text(40))
    case 9: return .history(deviceHistoryCommand())
    case 10: return .rules(.read)
    case 11: return .rules(.write(distinctRules()))
    default: return .call(call, verb(kind - 12))
    }
  }

  /// Rules as devices may send them: they name no user or device twice.
  private mutating func distinctRules() -> UserRules {
    var rules = userRules()
    rules.firstDevices = Array(rules.firstDevices.prefix(1))
    for path in [
      \UserRules.always, \UserRules.onBusy, \UserRules.onNoAnswer, \UserRules.onUnreachable,
    ] {
      if let first = rules[keyPath: path]?.users.first {
        rules[keyPath: path] = UserRules.Forward(users: [first])
      }
    }
    if let except = rules.doNotDisturb?.except {
      rules.doNotDisturb?.except = Array(except.prefix(1))
    }
    return rules
  }

  static let serverKinds = 14 + eventKinds

  mutating func serverFrame(_ kind: Int? = nil) -> ServerFrame {
    let kind = kind ?? Int.random(in: 0..<Self.serverKinds, using: &self)
    switch kind {
    case 0: return .reply(id: number(), .error(error()))
    case 1: return .reply(id: number(), .done)
    case 2:
      return .reply(
        id: number(),
        .attached(
          AttachedInfo(
            session: text(10), user: user(), device: device(), pingSeconds: 25,
            serverTime: milliseconds(), forCall: maybe { $0.state() },
            nearer: chance(50) ? text(20) : "", ongoing: maybe { $0.ongoing() },
            relays: maybe { $0.relays() })))
    case 3:
      return .reply(
        id: number(),
        .registered(
          RegisteredInfo(
            device: device(), expiresAt: milliseconds(), removed: list(3) { $0.device() },
            capabilities: capabilities())))
    case 4: return .reply(id: number(), .call(state()))
    case 5: return .reply(id: number(), .answer(won: true, state()))
    case 6: return .reply(id: number(), .answer(won: false, state()))
    case 7: return .notice(notice())
    case 8: return .reply(id: number(), .calls(liveCalls()))
    case 9: return .ongoing(ongoing())
    case 10: return .history(historyState())
    case 11: return .reply(id: number(), .history(historyPage()))
    case 12: return .reply(id: number(), .rules(userRules()))
    case 13: return .relays(relays())
    default: return .delivery(delivery(kind - 14))
    }
  }

  private mutating func relays() -> RelayCredentials {
    RelayCredentials(
      urls: list(3) { $0.text(20) }, username: text(20), password: text(28),
      expiresAt: milliseconds())
  }

  mutating func ongoing() -> OngoingCalls {
    OngoingCalls(
      version: number(),
      calls: list(3) {
        OngoingCall(
          call: $0.call(), callee: $0.user(), isPlaced: $0.chance(50), device: $0.device(),
          deviceName: $0.text(10), peer: $0.user(), peerName: $0.text(10), since: $0.milliseconds())
      })
  }
}

/// Histories.
extension Generator {
  mutating func cursor() -> HistoryCursor { HistoryCursor(number() | 1) }

  /// One that a device may say.
  mutating func deviceHistoryCommand() -> HistoryCommand {
    chance(50)
      ? .list(before: maybe { $0.cursor() }, limit: UInt32.random(in: 0...100, using: &self))
      : .markRead(upTo: cursor())
  }

  mutating func historyState() -> HistoryState {
    HistoryState(cursor: cursor(), unread: UInt32.random(in: 0...1000, using: &self))
  }

  mutating func historyPage() -> HistoryPage {
    HistoryPage(
      items: list(3) { HistoryPage.Item(cursor: $0.cursor(), entry: $0.historyEntry()) },
      next: maybe { $0.cursor() }, state: historyState(), readUpTo: cursor())
  }

  mutating func historyEntry() -> HistoryEntry {
    var entry = HistoryEntry(
      call: call(), callee: user(), isPlaced: chance(50), peer: user(), peerName: text(10),
      device: maybe { $0.device() }, deviceName: text(10), placedAt: milliseconds(),
      answeredAt: maybe { $0.milliseconds() }, endedAt: milliseconds(),
      reason: one(of: EndReason.self), isMissed: chance(50), video: chance(50),
      divertedBy: chance(50) ? user() : "", wentOn: chance(50), answeredBy: chance(50) ? user() : ""
    )
    entry.wentTo = list(2) { $0.user() }
    return entry
  }
}
