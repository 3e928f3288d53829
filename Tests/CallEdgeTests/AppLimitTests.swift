import CallCore
import CallEdge
import CallTelemetry
import CallWire
import NIOCore
import Testing

private let start = Timestamp(microseconds: wallSeconds * 1_000_000)
private let most = AppLimit.signalBytesPerUser.facts.range.upperBound

/// The share of an edge that an app, one of its users and one session may take.
@Suite(.timeLimit(.minutes(2))) struct AppLimitTests {
  /// Two apps: the limits of the first are small.
  private struct Gates {
    let registry = MetricsRegistry()
    let gates: AppGates
    var now = start

    init(_ limits: [AppLimit: Int], topics: [String]? = nil) {
      var terms = AppTerms(pushTopics: topics)
      for (limit, value) in limits { terms.limits[limit] = value }
      gates = AppGates(
        ["demo": terms, "other": AppTerms()], usersMax: 1000, registry: registry, now: start)
    }

    func say(_ body: Command.Body, user: String = "ann", app: String = "demo") -> CallError? {
      let key = UserKey(app: app, user: user)
      return gates.refusal(
        of: Command(
          session: SessionRef(edge: 1, number: 1), request: 1, user: key, device: "d", callee: key,
          body: body), now: now)
    }

    func place(_ bytes: Int = 0, user: String = "ann", app: String = "demo") -> CallError? {
      let text = String(repeating: "d", count: bytes)
      return say(
        .place(PlaceRequest(call: CallID(high: 1, low: 1), description: text)), user: user, app: app
      )
    }

    func refused(_ limit: AppLimit, app: String = "demo") -> Int {
      let line = "callmesh_app_limited_total{app=\"\(app)\",limit=\"\(limit.rawValue)\"} "
      let text = registry.render().split(separator: "\n").first { $0.hasPrefix(line) }
      return text.flatMap { Int($0.dropFirst(line.count)) } ?? -1
    }
  }

  @Test func callsOfAUser() {
    var gates = Gates([.callsPerUser: 2])
    for _ in 0..<20 { #expect(gates.place() == nil) }
    let refusal = gates.place()
    #expect(refusal?.code == .rateLimited)
    #expect(
      refusal?.message
        == "callsPerUser: at most 2 calls and transfers a second from one user, 20 at once.")
    #expect(refusal?.retryAfterMilliseconds == 500)
    #expect(gates.place(user: "bob") == nil, "each user has a rate of its own")
    #expect(gates.place(app: "other") == nil, "also one of the same name in another app")
    #expect(gates.refused(.callsPerUser) == 1)
    gates.now = start + .milliseconds(500)
    #expect(gates.place() == nil)
    #expect(gates.place()?.code == .rateLimited)
  }

  @Test func aTransferCountsAsACall() {
    let gates = Gates([.callsPerUser: 2])
    let call = CallID(high: 1, low: 1)
    let transfer = Command.Body.call(call, .transfer(TransferRequest(to: "dave")))
    for _ in 0..<20 { #expect(gates.say(transfer) == nil) }
    #expect(gates.say(transfer)?.code == .rateLimited)
    #expect(gates.place()?.code == .rateLimited)
    #expect(gates.say(.call(call, .cancelTransfer)) == nil)
  }

  @Test func callsOfAnApp() {
    var gates = Gates([.callsPerSecond: 10])
    for number in 0..<20 { #expect(gates.place(user: "u\(number)") == nil) }
    let refusal = gates.place(user: "last")
    #expect(
      refusal?.message
        == "callsPerSecond: at most 10 calls and transfers a second of one app, 20 at once.")
    #expect(refusal?.retryAfterMilliseconds == 100)
    #expect(gates.place(app: "other") == nil, "the other app notices nothing")
    #expect(
      gates.refused(.callsPerSecond) == 1 && gates.refused(.callsPerSecond, app: "other") == 0)
    gates.now = start + .milliseconds(100)
    #expect(gates.place(user: "last") == nil)
  }

  /// One user cannot use up what is the app's by calls that are refused.
  @Test func whatIsOverTheUsersLimitTakesNothingOfTheApps() {
    let gates = Gates([.callsPerSecond: 20, .callsPerUser: 1])
    for _ in 0..<1000 { _ = gates.place(user: "mallory") }
    for number in 0..<30 { #expect(gates.place(user: "u\(number)") == nil) }
  }

  private func candidate(_ bytes: Int) -> Command.Body {
    .call(CallID(high: 1, low: 1), .signal(.candidate, body: String(repeating: "c", count: bytes)))
  }
  private func answer(_ bytes: Int) -> Command.Body {
    .call(CallID(high: 1, low: 1), .answer(description: String(repeating: "d", count: bytes)))
  }

  @Test func bytesOfAUser() {
    var gates = Gates([.signalBytesPerUser: 10_000])
    #expect(gates.place(60_000) == nil)
    #expect(gates.say(answer(60_000)) == nil)
    for _ in 0..<5 { #expect(gates.say(candidate(8000)) == nil) }
    let refusal = gates.say(candidate(8000))
    #expect(
      refusal?.message
        == "signalBytesPerUser: at most 10000 bytes of descriptions and candidates a second from one "
        + "user, 160000 at once.")
    #expect(refusal?.retryAfterMilliseconds == 800)
    #expect(gates.say(.call(CallID(high: 1, low: 1), .hangUp)) == nil)
    #expect(gates.place(user: "bob") == nil)
    gates.now = start + .milliseconds(800)
    #expect(gates.say(candidate(8000)) == nil)
  }

  /// Candidates never keep an answer out. It overdraws the rate, by as much as the burst.
  @Test func anAnswerPassesBeforeCandidates() {
    let gates = Gates([.signalBytesPerUser: 10_000])
    for _ in 0..<10 { #expect(gates.say(candidate(16_000)) == nil) }
    #expect(gates.say(candidate(1))?.code == .rateLimited)
    for bytes in [4000, 65_536, 65_536] { #expect(gates.say(answer(bytes)) == nil) }
    #expect(gates.say(answer(65_536))?.code == .rateLimited, "the overdraft has an end")
    #expect(gates.say(answer(160_000 - 4000 - 2 * 65_536)) == nil)
    #expect(gates.say(candidate(1))?.code == .rateLimited)
    #expect(gates.refused(.signalBytesPerUser) == 3)
  }

  /// Rules are written to the store of registrations.
  @Test(arguments: [Command.Body.register(RegistrationRequest()), .rules(.write(UserRules()))])
  func registrationsOfAnApp(body: Command.Body) {
    let gates = Gates([.registrationsPerSecond: 3])
    for number in 0..<30 { #expect(gates.say(body, user: "u\(number)") == nil) }
    #expect(gates.say(body)?.code == .rateLimited)
    #expect(gates.say(body, app: "other") == nil && gates.say(.rules(.read)) == nil)
    #expect(gates.refused(.registrationsPerSecond) == 1)
  }

  @Test func liveCallsOfAnApp() {
    let gates = Gates([.liveCalls: 2])
    let live = gates.gates.gate(of: "demo")?.live
    live?.add(1)
    #expect(gates.place() == nil)
    live?.add(1)
    let refusal = gates.place()
    #expect(refusal?.code == .tooManyLiveCalls && refusal?.retryAfterMilliseconds == 1000)
    #expect(refusal?.message == "liveCalls: at most 2 live calls of one app.")
    #expect(gates.place(app: "other") == nil && gates.refused(.liveCalls) == 1)
    // The count stays when the terms change.
    var terms = AppTerms()
    terms.limits[.liveCalls] = 1
    gates.gates.update(["demo": terms], now: start)
    #expect(gates.place()?.code == .tooManyLiveCalls)
    live?.add(-2)
    #expect(gates.place() == nil)
  }

  @Test func newTermsCount() {
    let gates = Gates([.callsPerUser: 1])
    for _ in 0..<10 { #expect(gates.place() == nil) }
    #expect(gates.place()?.code == .rateLimited)
    var terms = AppTerms()
    terms.limits[.callsPerUser] = 5
    gates.gates.update(["demo": terms], now: start)
    for _ in 0..<50 { #expect(gates.place() == nil) }
    gates.gates.update(["demo": terms], now: start)
    #expect(gates.place()?.code == .rateLimited, "what has not changed goes on")
    #expect(gates.gates.gate(of: "other") == nil)
  }

  @Test(
    arguments: [
      (.apns, "org.example.app", false, true), (.apns, "org.example.app.voip", true, true),
      (.fcm, "example-project", false, true), (.webPush, "https://push.example", false, true),
      (.apns, "org.other.app", false, false), (.apns, "org.other.app.voip", true, false),
      (.fcm, "other-project", false, false), (.fcm, "org.example.app.voip", false, false),
      // It does not say whose project it is.
      (.fcm, "", false, false),
    ] as [(PushProvider, String, Bool, Bool)])
  func pushTopics(provider: PushProvider, topic: String, isVoIP: Bool, isOwn: Bool) {
    let gates = Gates([:], topics: ["org.example.app", "example-project"])
    let token = PushToken(provider: provider, environment: "", topic: topic, token: "t")
    let body = Command.Body.register(
      RegistrationRequest(voipToken: isVoIP ? token : nil, alertToken: isVoIP ? nil : token))
    #expect(gates.say(body)?.code == (isOwn ? nil : .foreignPushTopic))
    #expect(gates.say(body, app: "other") == nil)
  }

  private func limited(_ limit: AppLimit) -> Double {
    edge.metric("callmesh_app_limited_total{app=\"demo\",limit=\"\(limit.rawValue)\"}")
  }

  @Test(.stillEdge(terms: .limited([.callsPerUser: 1])), arguments: DeviceCodec.allCases)
  func aSessionHearsItsLimit(codec: DeviceCodec) async throws {
    let (client, _) = try await edge.device("ann", "phone", codec: codec)
    for id in UInt64(2)..<12 {
      let call = CallID(high: 1, low: id)
      #expect(try await client.ask(id, .place(call)) == .done)
      // Only so many may live at a time.
      let cancel = ClientCommand.call(CallAddress(callee: "bob", call: call), .cancel)
      #expect(try await client.ask(id + 100, cancel) == .done)
    }
    let error = try #require(await client.ask(12, .place(CallID(high: 1, low: 12))).error)
    #expect(error.code == .rateLimited && error.retryAfterMilliseconds == 1000)
    #expect(error.message.hasPrefix("callsPerUser: at most 1 calls and transfers a second"))
    // The client does not retransmit the place: nothing was placed.
    #expect(try await client.ask(13, .ping) == .done)
    #expect(limited(.callsPerUser) == 1)
    #expect(edge.metric("callmesh_app_rates{app=\"demo\"}") == 1)
  }

  @Test(.stillEdge(terms: .limited([.liveCalls: 2])))
  func liveCallsAreThoseOfItsSessions() async throws {
    func place(_ client: RawClient, _ id: UInt64) async throws -> CallError.Code? {
      try await client.ask(id, .place(CallID(high: 1, low: id))).code
    }
    let (ann, _) = try await edge.device("ann", "phone")
    let (carl, _) = try await edge.device("carl", "phone")
    #expect(try await place(ann, 2) == nil)
    #expect(try await place(carl, 3) == nil)
    #expect(try await place(carl, 4) == .tooManyLiveCalls)
    let address = CallAddress(callee: "bob", call: CallID(high: 1, low: 2))
    #expect(try await ann.ask(5, .call(address, .cancel)) == .done)
    #expect(try await place(carl, 6) == nil)
    #expect(try await place(ann, 7) == .tooManyLiveCalls)
    // Who is gone has none.
    try await carl.channel.close().get()
    _ = try await edge.shards.next(\.isEnd)
    #expect(try await place(ann, 8) == nil)
    #expect(try await place(ann, 9) == nil)
    #expect(try await place(ann, 10) == .tooManyLiveCalls)
  }

  /// The commands carry what the app has chosen.
  @Test(
    arguments: [
      (nil, .anew, .webhooks), (.busy, .caller, []), (.allow, .caller, .history),
    ] as [(SecondCalls?, ForwardedRing, Subscriptions)])
  func theShardHearsWhatTheAppHasChosen(
    secondCalls: SecondCalls?, ring: ForwardedRing, subscriptions: Subscriptions
  ) async throws {
    var terms = AppTerms(secondCalls: secondCalls, subscriptions: subscriptions)
    terms.forwardedRing = ring
    terms.limits[.devicesOfUser] = 3
    try await EdgeFixture.run(terms: terms) { edge in
      let client = try await edge.socket(.json)
      try await client.attach(AttachRequest(token: try edge.token("ann"), device: "phone"))
      #expect(try await edge.shards.next(\.isAttach).devicesPerUser == 3)
      client.say(2, .register(RegistrationRequest()))
      let register = try await edge.shards.next(\.isRegister)
      #expect(register.devicesPerUser == 3)
      #expect(register.hasWebhooks == (subscriptions == .webhooks))
      client.say(3, .place(CallID(high: 1, low: 2)))
      let place = try await edge.shards.nextPlace()
      #expect(place.busyWhileInCall == secondCalls.map { $0 == .busy })
      #expect(place.ringsAnew == (ring == .anew))
      #expect(place.subscriptions == subscriptions)
    }
  }

  @Test(.stillEdge(terms: .limited([.registrationsPerSecond: 1], pushTopics: ["org.example.app"])))
  func byHTTPTheAnswerSaysWhen() async throws {
    let token = try edge.token("ann", device: "phone")
    func register(_ body: String) async throws -> RawClient.Response {
      try await edge.request("POST", "/v1/devices", token: token, body: body)
    }
    for _ in 0..<10 { #expect(try await register("{}").status == 200) }
    let refused = try await register("{}")
    #expect(refused.status == 429 && refused.headers["retry-after"] == "1")
    #expect(refused.text.contains("registrationsPerSecond: at most 1 registrations a second"))
    let digits = String(repeating: "ab", count: 32)
    let foreign = try await register(
      #"{"alertToken":{"provider":"apns","topic":"org.other.app","token":"\#(digits)"}}"#)
    #expect(foreign.status == 403 && foreign.text.contains("foreignPushTopic"))
    #expect(!foreign.text.contains(digits))
    #expect(edge.metric("callmesh_app_foreign_topics_total{app=\"demo\"}") == 1)
  }

  /// Bytes count as they come over the socket, whatever they hold.
  @Test(.stillEdge(terms: .limited([.bytesPerSession: 8192, .signalBytesPerUser: most])))
  func bytesOfASession() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    let signal = ClientCommand.call(
      CallAddress(callee: "bob", call: CallID(high: 1, low: 1)),
      .signal(.description, body: String(repeating: "d", count: 60_000)))
    // The bucket holds the largest frame of all in any case.
    for id in UInt64(2)..<19 { #expect(try await client.ask(id, signal) == .done) }
    let error = try #require(await client.ask(99, signal).error)
    #expect(error.code == .rateLimited && error.retryAfterMilliseconds > 0)
    #expect(error.message == "bytesPerSession: at most 8192 bytes a second, 1048576 at once.")
    #expect(limited(.bytesPerSession) == 1)
  }

  /// A frame that can be read and is refused costs as much to decode as another one.
  @Test func bytesOfFramesThatAreRefused() {
    var machine = SessionMachine.attached()
    let bad = FrameError(id: 2, error: CallError(.invalidField))
    func replies() -> [CallError.Code?] {
      machine.take().compactMap {
        if case .reply(_, .error(let error)) = $0 { error.code } else { nil }
      }
    }
    machine.session.received(bad: bad, bytes: 700_000, &machine.turn)
    machine.session.received(bad: bad, bytes: 700_000, &machine.turn)
    #expect(replies() == [.invalidField, .rateLimited])
  }

  @Test(.stillEdge(terms: .limited([.commandsPerSession: 2])))
  func commandsOfASession() async throws {
    let (client, _) = try await edge.device("ann", "phone")
    var refused: CallError?
    for id in UInt64(2)..<70 where refused == nil {
      let address = CallAddress(callee: "bob", call: CallID(high: 1, low: id))
      refused = try await client.ask(id, .call(address, .query)).error
    }
    #expect(refused?.message == "Too many commands: 2 a second, 6 at once.")
    #expect(limited(.commandsPerSession) == 1)
  }
}
