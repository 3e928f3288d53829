import CallAuth
import CallClient
import CallCore
import CallProcesses
import CallTestKit
import CallWire
import Foundation
import PushSimulators
import Testing

/// A secret that lets somebody push, call or decline in another's name is printed nowhere: a run with every kind of
/// token and all that may befall one, with all nodes at their most talkative.
@Suite("Secrets of pushes", .serialized, .timeLimit(.minutes(4))) struct PushSecrecyTests {
  @Test("No token, key, capability or login is in any log, metric or answer to an operator")
  func nothingIsPrinted() async throws {
    try await PushCluster.run(coordinators: 2, options: ["--log-level", "trace"]) { stage in
      let alice = try await stage.attached("alice", "a1")
      var played = Played()
      try await declined(stage, alice, &played)
      try await answered(stage, alice, &played)
      try await refused(stage, alice, &played)
      try await moved(stage, alice, &played)
      try await misused(stage, &played)
      try await keysAreReplaced(stage, &played)
      try await keys(stage, &played)
      let texts = try await printed(stage, played)
      #expect(played.secrets.findings(in: texts) == [])
      try theSearchFinds(played.secrets, texts)
      try shown(stage, played, texts)
    }
  }

  // MARK: The run

  private func place(_ alice: TestDevice, _ user: String, _ played: inout Played) async throws
    -> CallID
  {
    let call = try await alice.place(to: user)
    played.calls.append(call)
    return call
  }

  /// A VoIP push whose call is declined from the lock screen. Its token is renewed. The caller gives up the next call,
  /// and a push to the alert token reports that.
  @inline(never)
  private func declined(_ stage: PushCluster, _ alice: TestDevice, _ played: inout Played)
    async throws
  {
    let (first, second, alert) = (stage.voipToken(), stage.voipToken(), stage.alertToken())
    for (name, token) in [
      ("VoIP token", first), ("renewed VoIP token", second), ("alert token", alert),
    ] {
      played.add(name, token)
    }
    try await stage.register("bob", "iphone", voip: first, alert: alert)
    let call = try await place(alice, "bob", &played)
    try await eventually("bob is pushed") { try stage.newsByAPNs(first).has(.ring, of: call) }
    let capability = try #require(try stage.newsByAPNs(first).invite?.capability)
    played.secrets.add("capability", capability)
    let forged = String(capability.reversed())
    played.secrets.add("forged capability", forged)
    await #expect(throws: CallError.self) {
      try await stage.http.actions(callee: "bob", call: call, capability: forged).decline()
    }
    try await stage.http.actions(callee: "bob", call: call, capability: capability).decline()
    try await alice.waitForStop(call, .declined)

    try await stage.register("bob", "iphone", voip: second, alert: alert)
    let missed = try await place(alice, "bob", &played)
    try await eventually("bob is pushed with the new token") {
      try stage.newsByAPNs(second).has(.ring, of: missed)
    }
    try await alice.device.cancel(missed)
    try await eventually("bob is told of the end and of the missed call") {
      try stage.newsByAPNs(alert).purposes.isSuperset(of: [.ended, .missedNotice])
    }
    #expect(try !stage.newsByAPNs(first).has(.ring, of: missed))
  }

  @inline(never)
  private func answered(_ stage: PushCluster, _ alice: TestDevice, _ played: inout Played)
    async throws
  {
    let (fcm, web) = (stage.fcmToken(), stage.webToken())
    played.add("FCM token", fcm)
    played.add("Web Push subscription", web)
    try await stage.register("dora", "android", alert: fcm)
    try await stage.register("dora", "browser", alert: web)
    let call = try await place(alice, "dora", &played)
    try await eventually("dora is pushed") {
      try stage.newsByFCM(fcm).has(.ring, of: call) && stage.newsByWebPush(0).has(.ring, of: call)
    }
    for (name, news) in [
      ("FCM", try stage.newsByFCM(fcm)), ("browser", try stage.newsByWebPush(0)),
    ] {
      played.secrets.add("capability by \(name)", try #require(news.invite?.capability))
    }
    let android = try await stage.attached("dora", "android", wokenFor: call)
    try await android.answer(call, of: alice)
    try await eventually("the browser is told") { try stage.newsByWebPush(0).has(.ended, of: call) }
    try await alice.hangUp(call, with: android)
    played.secrets.add("login of a device", android.token)

    // Gone with all providers: nobody is left to ring.
    android.stop()
    stage.fcm.refuse(device: fcm.token, with: "UNREGISTERED")
    stage.web.unsubscribe(0)
    let unreachable = try await place(alice, "dora", &played)
    try await alice.waitForStop(unreachable, .unreachable)
  }

  /// Providers that do not take a push, each in another way.
  @inline(never)
  private func refused(_ stage: PushCluster, _ alice: TestDevice, _ played: inout Played)
    async throws
  {
    let now = Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
    let (gone, wrong, bad) = (stage.voipToken(), stage.voipToken(), stage.voipToken())
    played.add("token that is gone", gone)
    played.add("token of another topic", wrong)
    played.add("bad token", bad)
    stage.apns.play(
      APNsScript([
        .init(.answer(.unregistered, timestamp: now + .seconds(3600)), tokens: [gone.token]),
        .init(.answer(.topicDisallowed), tokens: [wrong.token]),
        .init(.answer(.badDeviceToken), tokens: [bad.token]),
      ]))
    for (user, token) in [("erin", gone), ("fred", wrong), ("gina", bad)] {
      try await stage.register(user, "iphone", voip: token)
      let call = try await place(alice, user, &played)
      try await alice.waitForStop(call, .unreachable)
    }
    stage.apns.play(APNsScript())

    let (sender, browser) = (stage.fcmToken(), stage.webToken())
    played.add("FCM token of another sender", sender)
    played.add("refused subscription", browser)
    stage.fcm.refuse(device: sender.token, with: "SENDER_ID_MISMATCH")
    stage.web.unsubscribe(1, status: 404)
    try await stage.register("hugo", "android", alert: sender)
    try await stage.register("hugo", "browser", alert: browser)
    let call = try await place(alice, "hugo", &played)
    try await alice.waitForStop(call, .unreachable)
  }

  @inline(never)
  private func moved(_ stage: PushCluster, _ alice: TestDevice, _ played: inout Played)
    async throws
  {
    let token = stage.voipToken()
    played.add("token that moves", token)
    try await stage.register("ida", "iphone", voip: token)
    try await stage.register("carol", "iphone", voip: token)
    let call = try await place(alice, "carol", &played)
    try await eventually("carol is pushed") { try stage.newsByAPNs(token).has(.ring, of: call) }
    try await alice.device.cancel(call)
    try await alice.waitForStop(call, .cancelled)
    played.moved = token
  }

  /// Requests that are refused, with a secret in each.
  @inline(never)
  private func misused(_ stage: PushCluster, _ played: inout Played) async throws {
    let login = try await TestDevice.token(stage.cluster.keys, user: "bob", "odd")
    let odd = PushCluster.randomHex() + "x"
    let voipByFCM = stage.fcmToken()
    played.secrets.add("login", login)
    played.secrets.add("odd token", odd)
    played.add("FCM token as VoIP token", voipByFCM)
    let forged = String(login.dropLast(20)) + "AAAAAAAAAAAAAAAAAAAA"
    played.secrets.add("forged login", forged)
    func register(_ what: String, _ token: String, _ authorization: String) async {
      let body = #"{"voipToken":\#(token),"device":"odd"}"#
      let answer = await HTTPProbe.send(
        "POST", "127.0.0.1", stage.cluster.port("e1"), "/v1/devices",
        headers: ["Authorization: \(authorization)", "Content-Type: application/json"], body: body)
      #expect(answer.status >= 400, "\(what) was accepted")
      played.answers["answer to \(what)"] = answer.body
    }
    let topic = PushCluster.bundle
    let apns = #"{"provider":"apns","topic":"\#(topic)","token":"\#(odd)"}"#
    let fcm = #"{"provider":"fcm","topic":"\#(topic)","token":"\#(voipByFCM.token)"}"#
    await register("an odd token", apns, "Bearer \(login)")
    await register("a VoIP token of FCM", fcm, "Bearer \(login)")
    await register("no JSON", "\"" + odd, "Bearer \(login)")
    await register("a forged login", apns, "Bearer \(forged)")
    await register("another scheme", apns, "Basic \(login)")
  }

  /// A key that is none, then the former one: the gateway says which file it is, and not what is in it.
  @inline(never)
  private func keysAreReplaced(_ stage: PushCluster, _ played: inout Played) async throws {
    let good = stage.apns.key.privateKeyPEM
    let lines = (0..<3).map { _ in PushCluster.randomHex() }
    let bad =
      "-----BEGIN PRIVATE KEY-----\n\(lines.joined(separator: "\n"))\n-----END PRIVATE KEY-----\n"
    played.secrets.add("key that is none", pem: bad)
    for (text, line) in [(bad, "A push key is not usable"), (good, "push keys were read again")] {
      try stage.write(text, "apns.p8")
      stage.cluster.signal("p1", SIGHUP)
      try await eventually("the gateway says: \(line)") { stage.cluster.log("p1").contains(line) }
    }
  }

  // MARK: What is printed

  /// Logs, metrics, and the answers to operators, by where each is from.
  @inline(never)
  private func printed(_ stage: PushCluster, _ played: Played) async throws -> [String: String] {
    var texts = played.answers
    for node in stage.cluster.running {
      texts["\(node).log"] = stage.cluster.log(node)
      let metrics = try await stage.cluster.ask(node, "/metrics")
      #expect(metrics.status == 200)
      texts["metrics of \(node)"] = metrics.body
    }
    var questions = [["status", "--once"]]
    questions += ["bob", "carol", "dora", "ida"].map { ["user", "demo", $0] }
    questions += played.calls.map { ["call", $0.description] }
    // One after the other: each waits for an answer as long as an operator would.
    for question in questions.flatMap({ [$0, $0 + ["--json"]] }) {
      let output = try await stage.cluster.callctl(question)
      let name = "callctl " + question.joined(separator: " ")
      #expect(!output.text.isEmpty, "\(name): \(output.errors)")
      texts[name] = output.text
    }
    return texts
  }

  /// Each secret, planted into a log, is found; and so is a part of it.
  @inline(never)
  private func theSearchFinds(_ search: SecretSearch, _ texts: [String: String]) throws {
    let log = try #require(texts["p1.log"])
    let middle = log.index(log.startIndex, offsetBy: log.count / 2)
    for secret in search.secrets {
      for part in [secret.text, String(secret.text.dropFirst(3).prefix(24)).uppercased()]
      where part.count >= 24 || part == secret.text {
        var planted = log
        planted.insert(contentsOf: part, at: middle)
        #expect(search.findings(in: ["copy": planted]).contains("\(secret.name) in copy"))
      }
    }
  }

  /// The texts are those of the run: they tell of it, at every level.
  @inline(never)
  private func shown(_ stage: PushCluster, _ played: Played, _ texts: [String: String]) throws {
    for node in ["c1", "c2", "e1", "p1"] {
      #expect(texts["\(node).log"]?.isEmpty == false)
      #expect(texts["metrics of \(node)"]?.contains("process_cpu_seconds_total") == true)
    }
    #expect(texts["e1.log"]?.contains(#""level":"debug""#) == true)
    #expect(texts["p1.log"]?.contains("A push was not sent.") == true)
    let token = try #require(played.moved)
    // As much of it as operators are shown.
    let fingerprint = PushTokenFingerprint.of(provider: "apns", token: token.token).prefix(12)
    for format in ["", " --json"] {
      #expect(texts["callctl user demo carol" + format]?.contains(fingerprint) == true)
      #expect(texts["callctl user demo ida" + format]?.contains(fingerprint) == false)
    }
  }
}
