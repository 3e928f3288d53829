import CallClient
import CallCore
import CallTestKit
import CallWire
import Foundation
import Testing

/// Sleeping phones learn of their user's history. The histories themselves: `AfterTheCallTests`.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct HistoryTests {
  /// Gives the app of a running cluster histories, and waits until the device's edge knows that.
  private func switchOn(_ cluster: TestCluster, _ device: TestDevice) async throws {
    try cluster.changeApp { $0["history"] = true }
    try await eventually("the edge reads the file") { await page(device) != nil }
  }

  /// nil while it is refused.
  private func page(_ device: TestDevice) async -> HistoryPage? {
    try? await device.device.history(limit: 7)
  }

  private func badges(_ stage: PushCluster, _ token: PushToken) -> [Int64?] {
    stage.mail.pushes(to: token.token).map {
      PayloadValue(json: $0.payload)?["aps"]?["badge"]?.wholeNumber
    }
  }

  /// Bob's Android phone rings and is left alone; his other phone shows alerts only.
  private func miss(_ stage: PushCluster, _ alice: TestDevice, _ android: PushToken) async throws {
    let call = CallID.random()
    try await alice.device.place(PlaceRequest(call: call, ringTimeoutSeconds: 120), to: "bob")
    try await eventually("it rings") { try stage.newsByFCM(android).has(.ring, of: call) }
    try await alice.device.cancel(call)
    try await eventually("both have a notice") {
      try stage.newsByFCM(android).has(.missedNotice, of: call)
    }
  }

  @Test func alertsOfSleepingPhonesHaveTheNumberOfUnreadCalls() async throws {
    try await PushCluster.run { stage in
      let alice = try await stage.attached("alice", "a1")
      defer { alice.stop() }
      #expect(await page(alice) == nil, "the app has none")
      try await switchOn(stage.cluster, alice)
      let (phone, android) = (stage.alertToken(), stage.fcmToken())
      try await stage.register("bob", "phone", alert: phone)
      try await stage.register("bob", "android", alert: android)
      for number in 1...2 as ClosedRange<Int64> {
        try await miss(stage, alice, android)
        try await eventually("\(number) at the icon") { badges(stage, phone).last == number }
      }

      // Read on a tablet.
      let tablet = try await stage.attached("bob", "tablet")
      var newest: HistoryCursor?
      try await eventually("both are in the history") {
        let page = await page(tablet)
        newest = page?.items.first?.cursor
        return page?.state.unread == 2
      }
      let cursor = try #require(newest)
      #expect(try await tablet.device.markHistoryRead(upTo: cursor).state.unread == 0)
      tablet.stop()
      try await miss(stage, alice, android)
      try await eventually("the new one alone") { badges(stage, phone).last == 1 }
      let notices = try stage.newsByFCM(android).compactMap { news -> UInt32? in
        if case .missed(let notice) = news { notice.unread } else { nil }
      }
      #expect(Set(notices) == [1, 2])
      #expect(stage.violations == [])
    }
  }
}
