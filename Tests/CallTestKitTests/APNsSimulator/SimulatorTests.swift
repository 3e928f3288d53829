import CallCore
import CallTestKit
import NIOCore
import NIOHTTP2
import Synchronization
import Testing

/// A server and its faults, as a client on NIOHTTP2 sees them.
@Suite(.timeLimit(.minutes(1)))
struct SimulatorTests {
  @Test("R31: a connection that never says anything again, and one that says nothing at all")
  func silence() async throws {
    let options = APNsSimulatorOptions.sample {
      $0.script = APNsScript(connections: [(1...1, .blackHole), (2...2, .cut)])
    }
    try await withSimulator(options) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      async let fate = sender.push()
      try await sender.ping()
      await #expect(throws: (any Error).self) { try await TestSender.connect(to: simulator) }
      simulator.cutConnections()
      #expect(await fate == .lost)
      try await sender.closed()
      #expect(simulator.report.accepted == 0)
      let third = try await TestSender.connect(to: simulator)
      #expect(await third.push().answer?.status == "200")
      await third.close()
    }
  }

  @Test("R32: refused connections, and listening again on the same port")
  func refusedConnections() async throws {
    try await withSimulator { simulator in
      await simulator.stopListening()
      await #expect(throws: (any Error).self) { try await TestSender.connect(to: simulator) }
      try await listenAgain(simulator)
      let sender = try await TestSender.connect(to: simulator)
      #expect(await sender.push().answer?.status == "200")
      await sender.close()
    }
  }

  /// Another test may have been given the port meanwhile, and gives it back.
  private func listenAgain(_ simulator: APNsSimulator) async throws {
    while true {
      do {
        return try await simulator.listenAgain()
      } catch is IOError {
        try Task.checkCancellation()
        await Task.yield()
      }
    }
  }

  @Test(
    "R32: certificates that a client must refuse",
    arguments: [
      APNsSimulatorOptions.Certificate.otherName, .expired, .untrusted,
    ])
  func badCertificates(kind: APNsSimulatorOptions.Certificate) async throws {
    try await withSimulator(.sample { $0.certificate = kind }) { simulator in
      await #expect(throws: (any Error).self) { try await TestSender.connect(to: simulator) }
      #expect(simulator.report.streams == 0)
    }
  }

  @Test("R1: without ALPN the connection is closed, unless the tolerant switch is on")
  func noALPN() async throws {
    try await withSimulator { simulator in
      await #expect(throws: (any Error).self) {
        try await TestSender.connect(to: simulator, protocols: [])
      }
      #expect(simulator.report.violations == [.noALPN: 1])
    }
    try await withSimulator(.sample { $0.leniency = [.noALPN] }) { simulator in
      let sender = try await TestSender.connect(to: simulator, protocols: [])
      #expect(await sender.push().answer?.status == "200")
      await sender.close()
    }
  }

  @Test("R5: an idle connection is ended with GOAWAY") func idle() async throws {
    try await withSender(.sample { $0.idleTimeout = .milliseconds(30) }) { _, sender in
      try await sender.closed()
      #expect(sender.notes.goAways.first?.debug == #"{"reason":"IdleTimeout"}"#)
    }
  }

  @Test("R34: of what is pushed to a device that is away, the last is kept")
  func awayDevice() async throws {
    let got = Mutex<[String]>([])
    let options = APNsSimulatorOptions.sample {
      $0.onPush = { push in got.withLock { $0.append(push.id) } }
    }
    try await withSender(options) { simulator, sender in
      simulator.register(sampleToken, topic: topic, device: "phone")
      simulator.unregister(device: "phone")
      let ids = (1...3).map { String(sampleID.dropLast()) + "\($0)" }
      for id in ids {
        let push = APNsRequest.sample(id: id, provider: providerOfNow)
          .with("apns-expiration", id == ids[2] ? "0" : "99999999999")
        #expect(await sender.push(push).answer?.status == "200")
      }
      #expect(got.withLock { $0 } == [])
      simulator.bringBack(device: "phone")
      #expect(got.withLock { $0 } == [ids[1]])
      #expect(simulator.report.dropped == 1)
      #expect(simulator.report.replaced == 1)
    }
  }

  @Test("R11: an id is minted where none was given, and in development a unique id, too")
  func ids() async throws {
    try await withSender(.sample { $0.environment = .development }) { _, sender in
      let answer = await sender.push(id: nil).answer
      #expect(isCanonicalUUID(answer?.id ?? ""))
      #expect(answer?.hasUniqueID == true)
      let refused = await sender.push(id: "nonsense").answer
      #expect(refused?.body == #"{"reason":"BadMessageId"}"#)
      #expect(isCanonicalUUID(refused?.id ?? ""))
    }
  }

  @Test func aGoodPushIsAcceptedAndItsIDEchoed() async throws {
    let pushes = Mutex<[APNsPush]>([])
    let options = APNsSimulatorOptions.sample {
      $0.onPush = { push in pushes.withLock { $0.append(push) } }
    }
    try await withSender(options) { simulator, sender in
      #expect(
        await sender.push() == .answered(.init(status: "200", id: sampleID, body: "", order: 1)))
      let report = simulator.report
      #expect(report.accepted == 1 && report.violationsTotal == 0 && report.providerTokens == 1)
      #expect(report.violations == [:])
      #expect(report.responses == ["200": 1])
      #expect(report.pushesByToken == [sampleToken: 1])
      #expect(pushes.withLock { $0.map(\.id) } == [sampleID])
      #expect(pushes.withLock { $0.first?.payload } == Array(#"{"aps":{}}"#.utf8))
    }
  }

  @Test("R2: one stream in the first SETTINGS, more after the first 200, no sooner")
  func limitRises() async throws {
    try await withSender(.sample { $0.streamsMax = 7 }) { _, sender in
      #expect(sender.notes.limits == [1])
      let refused = await sender.push(.sample(provider: providerOfNow).with("apns-topic", nil))
      #expect(refused.answer?.body == #"{"reason":"MissingTopic"}"#)
      #expect(sender.notes.limits == [1])
      _ = await sender.push()
      try await sender.settings(2)
      #expect(sender.notes.limits == [1, 7])
    }
  }

  /// Opens a connection: its first push is through, so that more than one stream is allowed. The rules begin after it.
  private func begin(
    _ rules: APNsScript.Rule..., at simulator: APNsSimulator, by sender: TestSender
  ) async throws {
    #expect(await sender.push().answer?.status == "200")
    try await sender.settings(2)
    simulator.play(APNsScript(rules))
  }

  /// Sends this many pushes at once, each to its own token. Returns their fates in order.
  private func pushes(_ count: Int, by sender: TestSender) async -> [TestSender.Fate] {
    await withTaskGroup(of: (Int, TestSender.Fate).self) { group in
      for number in 0..<count {
        group.addTask { (number, await sender.push(token: deviceToken(number), id: nil)) }
      }
      var fates = Array(repeating: TestSender.Fate.lost, count: count)
      for await (number, fate) in group { fates[number] = fate }
      return fates
    }
  }

  private func statuses(_ fates: [TestSender.Fate]) -> [String: Int] {
    fates.reduce(into: [:]) { $0[$1.answer?.status ?? "lost", default: 0] += 1 }
  }

  @Test("R25: GOAWAY answers those up to its last stream, and drops the rest")
  func goAwayInTheMiddle() async throws {
    let got = Mutex(0)
    let options = APNsSimulatorOptions.sample { $0.onPush = { _ in got.withLock { $0 += 1 } } }
    let goAway = APNsFault.gather(
      6, within: .seconds(20), then: .goAway(reason: .shutdown, answering: 4))
    try await withSender(options) { simulator, sender in
      try await begin(.init(goAway), at: simulator, by: sender)
      let fates = await pushes(6, by: sender)
      #expect(statuses(fates) == ["200": 4, "lost": 2])
      try await sender.closed()
      let goAway = try #require(sender.notes.goAways.first)
      #expect(goAway.last == HTTP2StreamID(9))  // 1 was the first push; 3, 5, 7 and 9 are answered.
      #expect(goAway.code == .noError)
      #expect(goAway.debug == #"{"reason":"Shutdown"}"#)
      #expect(simulator.report.unanswered == 2)
      #expect(got.withLock { $0 } == 5)
      #expect(simulator.report.violations == [:])
    }
  }

  @Test("R26: a GOAWAY that warns, then the real one; R27: a GOAWAY with an error")
  func otherGoAways() async throws {
    try await withSender { simulator, sender in
      try await begin(
        .init(.goAway(.init(warning: .milliseconds(20))), times: 1), at: simulator, by: sender)
      #expect(await sender.push().answer?.status == "200")
      try await sender.closed()
      #expect(sender.notes.goAways.map(\.last) == [.maxID, HTTP2StreamID(3)])
      let second = try await TestSender.connect(to: simulator)
      try await begin(
        .init(.goAway(.init(code: 2, last: .before)), times: 1), at: simulator, by: second)
      #expect(await second.push() == .lost)
      try await second.closed()
      #expect(second.notes.goAways.first?.code == .internalError)
      #expect(simulator.report.accepted == 3)
    }
  }

  @Test("R28: more than 200 SETTINGS and RST_STREAM, and the connection still works")
  func storms() async throws {
    try await withSender(.sample { $0.streamsMax = 50 }) { simulator, sender in
      try await begin(
        .init(.flipSettings(300), times: 1), .init(.reset(code: 8, times: 300), from: 2, times: 1),
        at: simulator, by: sender)
      #expect(await sender.push().answer?.status == "200")
      try await sender.settings(302)
      #expect(sender.notes.limits.last == 50)
      #expect(await sender.push() == .lost)
      #expect(await sender.push().answer?.status == "200")
    }
  }

  @Test("R4: BadDeviceToken narrows the connection to one stream, until a push is accepted")
  func narrows() async throws {
    try await withSender(.sample { $0.strangers = .refuse }) { simulator, sender in
      simulator.register(sampleToken, topic: topic)
      try await begin(at: simulator, by: sender)
      let refused = await sender.push(token: deviceToken(1))
      #expect(refused.answer?.status == "400")
      #expect(refused.answer?.body == #"{"reason":"BadDeviceToken"}"#)
      try await sender.settings(3)
      _ = await sender.push()
      try await sender.settings(4)
      #expect(sender.notes.limits == [1, 1000, 1, 1000])
      #expect(simulator.report.violations == [:])
    }
  }

  @Test("R29: so many BadDeviceToken end the connection")
  func badTokensEndTheConnection() async throws {
    let options = APNsSimulatorOptions.sample { ($0.strangers, $0.badTokensMax) = (.refuse, 2) }
    try await withSender(options) { _, sender in
      _ = await sender.push()
      #expect(sender.notes.goAways.isEmpty)
      #expect(await sender.push().answer?.status == "400")
      try await sender.closed()
      #expect(sender.notes.goAways.first?.debug == #"{"reason":"BadDeviceToken"}"#)
    }
  }

  @Test("R30: answers in reverse") func reversed() async throws {
    let reversed = APNsFault.gather(5, within: .seconds(20), then: .reversed)
    try await withSender { simulator, sender in
      try await begin(.init(reversed), at: simulator, by: sender)
      let orders = await pushes(5, by: sender).compactMap(\.answer?.order)
      #expect(orders.sorted() == [2, 3, 4, 5, 6])
      #expect(simulator.report.streamsInFlightMax == 5)
    }
  }

  @Test("R30: what is gathered is dealt with after a while, if no more come")
  func gatheredInVain() async throws {
    let gathered = APNsFault.gather(5, within: .milliseconds(10), then: .inOrder)
    try await withSender { simulator, sender in
      try await begin(.init(gathered), at: simulator, by: sender)
      #expect(await sender.push().answer?.status == "200")
    }
  }

  @Test("R30: an answer is understood in whatever form") func shapes() async throws {
    try await withSender { simulator, sender in
      for bits in 0..<16 as Range<UInt8> {
        let shape = APNsScript.Rule(.shape(APNsResponseShape(rawValue: bits)))
        simulator.play(APNsScript([shape]))
        let good = await sender.push().answer
        #expect(good?.status == "200", "\(bits)")
        #expect(good?.id == sampleID, "\(bits)")
        simulator.play(APNsScript([shape, .init(.answer(.badTopic))]))
        let bad = await sender.push().answer
        #expect(bad?.status == "400", "\(bits)")
        #expect(bad?.body == #"{"reason":"BadTopic"}"#, "\(bits)")
      }
    }
  }

  @Test("R30: a late answer; the device has the push meanwhile") func delayed() async throws {
    let got = Mutex<[String]>([])
    let options = APNsSimulatorOptions.sample {
      $0.onPush = { push in got.withLock { $0.append(push.id) } }
      $0.script = APNsScript([.init(.delay(.milliseconds(5)))])
    }
    try await withSender(options) { _, sender in
      #expect(await sender.push().answer?.status == "200")
      #expect(got.withLock { $0 } == [sampleID])
    }
  }
}

/// A device token that no other number has.
func deviceToken(_ number: Int) -> String {
  let text = String(number, radix: 16)
  return String(repeating: "0", count: 64 - text.count) + text
}
