import CallCore
import CallTestKit
import NIOHTTP2
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(1)))
struct SimulatorTests {
  @Test func aGoodPushIsAcceptedAndItsIDEchoed() async throws {
    let pushes = Mutex<[APNsPush]>([])
    let options = APNsSimulatorOptions.sample {
      $0.onPush = { push in pushes.withLock { $0.append(push) } }
    }
    try await withSimulator(options) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      let answer = await sender.push().answer
      #expect(answer?.status == "200")
      #expect(answer?.id == sampleID)
      #expect(answer?.body == "")
      #expect(answer?.hasUniqueID == false)
      await sender.close()
      let report = simulator.report
      #expect(report.violations == [:])
      #expect(report.accepted == 1)
      #expect(report.violationsTotal == 0)
      #expect(report.responses == ["200": 1])
      #expect(report.pushesByToken == [sampleToken: 1])
      #expect(report.providerTokens == 1)
      #expect(pushes.withLock { $0.map(\.id) } == [sampleID])
      #expect(pushes.withLock { $0.first?.payload } == Array(#"{"aps":{}}"#.utf8))
    }
  }

  @Test("R2: one stream in the first SETTINGS, more after the first 200, no sooner")
  func limitRises() async throws {
    try await withSimulator(.sample { $0.streamsMax = 7 }) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      #expect(sender.notes.limits == [1])
      let refused = await sender.push(.sample(provider: providerOfNow).with("apns-topic", nil))
      #expect(refused.answer?.body == #"{"reason":"MissingTopic"}"#)
      #expect(sender.notes.limits == [1])
      _ = await sender.push()
      try await sender.settings(2)
      #expect(sender.notes.limits == [1, 7])
      await sender.close()
    }
  }
}
