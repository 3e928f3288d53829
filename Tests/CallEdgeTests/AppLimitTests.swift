import CallCore
import CallEdge
import CallTelemetry
import CallWire
import NIOCore
import Testing

private let start = Timestamp(microseconds: wallSeconds * 1_000_000)

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
      let line =
        "callmesh_app_limited_total{app=\"\(app)\",limit=\"\(limit.rawValue)\"} "
      for text in registry.render().split(separator: "\n") where text.hasPrefix(line) {
        return Int(text.dropFirst(line.count)) ?? -1
      }
      return -1
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
    for _ in 0..<20 {
      #expect(gates.say(.call(call, .transfer(TransferRequest(to: "dave")))) == nil)
    }
    #expect(gates.say(.call(call, .transfer(TransferRequest(to: "dave"))))?.code == .rateLimited)
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

  @Test func bytesOfAUser() {
    var gates = Gates([.signalBytesPerUser: 10_000])
    let call = CallID(high: 1, low: 1)
    let body = String(repeating: "c", count: 8000)
    #expect(gates.place(60_000) == nil)
    #expect(
      gates.say(.call(call, .answer(description: String(repeating: "d", count: 60_000)))) == nil)
    for _ in 0..<5 { #expect(gates.say(.call(call, .signal(.candidate, body: body))) == nil) }
    let refusal = gates.say(.call(call, .signal(.candidate, body: body)))
    #expect(
      refusal?.message
        == "signalBytesPerUser: at most 10000 bytes of descriptions and candidates a second from one "
        + "user, 160000 at once.")
    #expect(refusal?.retryAfterMilliseconds == 800)
    #expect(gates.say(.call(call, .hangUp)) == nil && gates.place(user: "bob") == nil)
    gates.now = start + .milliseconds(800)
    #expect(gates.say(.call(call, .signal(.candidate, body: body))) == nil)
  }

  /// Candidates never keep an answer out. It overdraws the rate, by as much as the burst.
  @Test func anAnswerPassesBeforeCandidates() {
    let gates = Gates([.signalBytesPerUser: 10_000])
    let call = CallID(high: 1, low: 1)
    func candidate(_ bytes: Int) -> CallError? {
      gates.say(.call(call, .signal(.candidate, body: String(repeating: "c", count: bytes))))
    }
    func answer(_ bytes: Int) -> CallError? {
      gates.say(.call(call, .answer(description: String(repeating: "d", count: bytes))))
    }
    for _ in 0..<10 { #expect(candidate(16_000) == nil) }
    #expect(candidate(1)?.code == .rateLimited)
    #expect(answer(4000) == nil)
    #expect(answer(65_536) == nil && answer(65_536) == nil)
    #expect(answer(65_536)?.code == .rateLimited, "the overdraft has an end")
    #expect(answer(160_000 - 4000 - 2 * 65_536) == nil)
    #expect(candidate(1)?.code == .rateLimited)
    #expect(gates.refused(.signalBytesPerUser) == 3)
  }

  @Test func registrationsOfAnApp() {
    let gates = Gates([.registrationsPerSecond: 3])
    for number in 0..<30 {
      #expect(gates.say(.register(RegistrationRequest()), user: "u\(number)") == nil)
    }
    #expect(gates.say(.register(RegistrationRequest()))?.code == .rateLimited)
    #expect(gates.say(.register(RegistrationRequest()), app: "other") == nil)
    #expect(gates.refused(.registrationsPerSecond) == 1)
  }

  /// Rules are written to the store of registrations.
  @Test func rulesCountAsRegistrations() {
    let gates = Gates([.registrationsPerSecond: 1])
    for _ in 0..<10 { #expect(gates.say(.rules(.write(UserRules()))) == nil) }
    #expect(gates.say(.rules(.write(UserRules())))?.code == .rateLimited)
    #expect(gates.say(.rules(.read)) == nil)
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

  // MARK: Push topics

  @Test func pushTopics() {
    let gates = Gates([:], topics: ["org.example.app", "example-project"])
    func register(
      _ provider: PushProvider, _ topic: String, isVoIP: Bool = false, app: String = "demo"
    ) -> CallError.Code? {
      let token = PushToken(provider: provider, environment: "", topic: topic, token: "t")
      let request =
        isVoIP ? RegistrationRequest(voipToken: token) : RegistrationRequest(alertToken: token)
      return gates.say(.register(request), app: app)?.code
    }
    #expect(register(.apns, "org.example.app") == nil)
    #expect(register(.apns, "org.example.app.voip", isVoIP: true) == nil)
    #expect(register(.fcm, "example-project") == nil)
    #expect(register(.webPush, "https://push.example") == nil)
    #expect(register(.apns, "org.other.app") == .foreignPushTopic)
    #expect(register(.apns, "org.other.app.voip", isVoIP: true) == .foreignPushTopic)
    #expect(register(.fcm, "other-project") == .foreignPushTopic)
    #expect(register(.fcm, "") == .foreignPushTopic, "whose project is not said")
    #expect(register(.fcm, "org.example.app.voip") == .foreignPushTopic)
    #expect(register(.apns, "org.other.app", app: "other") == nil)
  }
}
