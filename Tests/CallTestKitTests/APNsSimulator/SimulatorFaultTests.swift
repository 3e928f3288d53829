import CallCore
import CallTestKit
import NIOCore
import NIOHTTP2
import Synchronization
import Testing

/// Each fault as a client on NIOHTTP2 sees it.
@Suite(.timeLimit(.minutes(1)))
struct SimulatorFaultTests {
  /// A connection whose first push is through, so that more than one stream is allowed. Scripts begin after it.
  private func opened(
    _ simulator: APNsSimulator, _ script: APNsScript
  ) async throws -> TestSender {
    let sender = try await TestSender.connect(to: simulator)
    #expect(await sender.push().answer?.status == "200")
    try await sender.settings(2)
    simulator.play(script)
    return sender
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
    try await withSimulator(options) { simulator in
      let sender = try await opened(
        simulator,
        APNsScript([
          .init(
            .gather(6, within: .seconds(20), then: .goAway(reason: .shutdown, answering: 4)))
        ]))
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

  @Test("R26: a GOAWAY that warns, then the real one; in between all is answered")
  func goAwayInTwoPhases() async throws {
    try await withSimulator { simulator in
      let sender = try await opened(
        simulator, APNsScript([.init(.goAway(.init(warning: .milliseconds(20))), times: 1)]))
      #expect(await sender.push().answer?.status == "200")
      try await sender.closed()
      #expect(sender.notes.goAways.map(\.last) == [.maxID, HTTP2StreamID(3)])
    }
  }

  @Test("R27: GOAWAY with an error, and a connection that is cut")
  func goAwayWithAnError() async throws {
    try await withSimulator { simulator in
      let first = try await opened(
        simulator,
        APNsScript([.init(.goAway(.init(code: 2, last: .before)), times: 1)]))
      #expect(await first.push() == .lost)
      try await first.closed()
      #expect(first.notes.goAways.first?.code == .internalError)
      let second = try await opened(simulator, APNsScript([.init(.cut)]))
      #expect(await second.push() == .lost)
      try await second.closed()
      #expect(simulator.report.accepted == 2)
    }
  }

  @Test("R28: REFUSED_STREAM for as many as the script says")
  func refused() async throws {
    try await withSimulator { simulator in
      let sender = try await opened(simulator, APNsScript([.init(.refuse, every: 2)]))
      #expect(statuses(await pushes(20, by: sender)) == ["200": 10, "lost": 10])
      #expect(simulator.report.accepted == 11)
      #expect(simulator.report.unanswered == 10)
      await sender.close()
    }
  }

  @Test("R28: more than 200 SETTINGS and RST_STREAM, and the connection still works")
  func storms() async throws {
    try await withSimulator(.sample { $0.streamsMax = 50 }) { simulator in
      let sender = try await opened(
        simulator,
        APNsScript([
          .init(.flipSettings(300), times: 1),
          .init(.reset(code: 8, times: 300), from: 2, times: 1),
        ]))
      #expect(await sender.push().answer?.status == "200")
      try await sender.settings(302)
      #expect(sender.notes.limits.last == 50)
      #expect(await sender.push() == .lost)
      #expect(await sender.push().answer?.status == "200")
      await sender.close()
    }
  }

  @Test("R4: BadDeviceToken narrows the connection to one stream, until a push is accepted")
  func narrows() async throws {
    try await withSimulator(.sample { $0.strangers = .refuse }) { simulator in
      simulator.register(sampleToken, topic: topic)
      let sender = try await opened(simulator, APNsScript())
      let refused = await sender.push(token: deviceToken(1))
      #expect(refused.answer?.status == "400")
      #expect(refused.answer?.body == #"{"reason":"BadDeviceToken"}"#)
      try await sender.settings(3)
      _ = await sender.push()
      try await sender.settings(4)
      #expect(sender.notes.limits == [1, 1000, 1, 1000])
      #expect(simulator.report.violations == [:])
      await sender.close()
    }
  }

  @Test("R29: so many BadDeviceToken end the connection")
  func badTokensEndTheConnection() async throws {
    let options = APNsSimulatorOptions.sample {
      $0.strangers = .refuse
      $0.badTokensMax = 2
    }
    try await withSimulator(options) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      _ = await sender.push()
      #expect(sender.notes.goAways.isEmpty)
      #expect(await sender.push().answer?.status == "400")
      try await sender.closed()
      #expect(sender.notes.goAways.first?.debug == #"{"reason":"BadDeviceToken"}"#)
    }
  }

  @Test("R30: answers in reverse")
  func reversed() async throws {
    try await withSimulator { simulator in
      let sender = try await opened(
        simulator, APNsScript([.init(.gather(5, within: .seconds(20), then: .reversed))]))
      async let all = pushes(5, by: sender)
      let orders = await all.compactMap(\.answer?.order)
      #expect(orders.sorted() == [2, 3, 4, 5, 6])
      #expect(simulator.report.streamsInFlightMax == 5)
      await sender.close()
    }
  }

  @Test("R30: what is gathered is dealt with after a while, if no more come")
  func gatheredInVain() async throws {
    try await withSimulator { simulator in
      let sender = try await opened(
        simulator, APNsScript([.init(.gather(5, within: .milliseconds(10), then: .inOrder))]))
      #expect(await sender.push().answer?.status == "200")
      await sender.close()
    }
  }

  @Test("R30: an answer is understood in whatever form")
  func shapes() async throws {
    try await withSimulator { simulator in
      let sender = try await opened(simulator, APNsScript())
      for bits in 0..<16 as Range<UInt8> {
        let shape = APNsResponseShape(rawValue: bits)
        simulator.play(APNsScript([.init(.shape(shape))]))
        let good = await sender.push().answer
        #expect(good?.status == "200", "\(bits)")
        #expect(good?.id == sampleID, "\(bits)")
        simulator.play(APNsScript([.init(.shape(shape)), .init(.answer(.badTopic))]))
        let bad = await sender.push().answer
        #expect(bad?.status == "400", "\(bits)")
        #expect(bad?.body == #"{"reason":"BadTopic"}"#, "\(bits)")
      }
      await sender.close()
    }
  }

  @Test("R30: a late answer; the device has the push meanwhile")
  func delayed() async throws {
    let got = Mutex<[String]>([])
    let options = APNsSimulatorOptions.sample {
      $0.onPush = { push in got.withLock { $0.append(push.id) } }
      $0.script = APNsScript([.init(.delay(.milliseconds(5)))])
    }
    try await withSimulator(options) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      #expect(await sender.push().answer?.status == "200")
      #expect(got.withLock { $0 } == [sampleID])
      await sender.close()
    }
  }
}

/// A device token that no other number has.
func deviceToken(_ number: Int) -> String {
  let text = String(number, radix: 16)
  return String(repeating: "0", count: 64 - text.count) + text
}
