import CallAuth
import CallClient
import CallCore
import CallTestKit
import CallWire
import Foundation
import Testing

/// Histories of users in a cluster of real processes: on both sides, each call once whatever dies, and read on all
/// devices.
@Suite(.timeLimit(.minutes(4)), .serialized)
struct HistoryTests {
  /// Gives the app of a running cluster histories, and waits until the device's edge knows that.
  private func switchOn(_ cluster: TestCluster, _ device: TestDevice) async throws {
    let path = cluster.folder + "/keys.json"
    let text = try String(contentsOfFile: path, encoding: .utf8)
    let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
    var apps = try #require(object?["apps"] as? [[String: Any]])
    apps[0]["history"] = true
    try JSONSerialization.data(withJSONObject: ["apps": apps]).write(
      to: URL(fileURLWithPath: path), options: .atomic)
    try await eventually("the edge reads the file") { await page(device) != nil }
  }

  /// nil while it is refused.
  private func page(_ device: TestDevice, before: HistoryCursor? = nil) async -> HistoryPage? {
    try? await device.device.history(before: before, limit: 7)
  }

  /// All pages; nil while one is refused.
  private func history(_ device: TestDevice) async -> [HistoryEntry]? {
    var entries: [HistoryEntry] = []
    var before: HistoryCursor?
    repeat {
      guard let page = await page(device, before: before) else { return nil }
      entries += page.items.map(\.entry)
      before = page.next
    } while before != nil
    return entries
  }

  /// What the app's server is answered.
  private func serverAnswer(
    _ cluster: TestCluster, _ path: String
  ) async throws -> (status: Int32, page: HistoryPage?) {
    let now = Int64(Date().timeIntervalSince1970)
    let token = try cluster.keys.mintServerToken(app: "demo", lifetimeSeconds: 60, now: now)
    let answer = await HTTPProbe.send(
      "GET", "127.0.0.1", cluster.port("e1"), path, headers: ["Authorization: Bearer \(token)"])
    let isPage = answer.status == 200
    return (answer.status, isPage ? HTTPBodies.readHistory(Array(answer.body.utf8)) : nil)
  }

  /// The app's server reads what the user's devices do, page by page, and leaves it unread.
  private func checkServer(_ cluster: TestCluster, _ bob: TestDevice) async throws {
    let path = "/v1/app/users/bob/history"
    let all = try await serverAnswer(cluster, path).page
    let devices = await page(bob)
    #expect(all == devices && all?.state.unread == 1 && all?.items.count == 2)
    let first = try #require(try await serverAnswer(cluster, path + "?limit=1").page)
    #expect(first.items.first == all?.items.first)
    let next = try #require(first.next)
    let second = try await serverAnswer(cluster, path + "?before=\(next.text)").page
    #expect(second?.items == all.map { Array($0.items.dropFirst()) } && second?.next == nil)
    let placed = try await serverAnswer(cluster, "/v1/app/users/alice/history?limit=100").page
    #expect(placed?.items.count == 17 && placed?.items.allSatisfy(\.entry.isPlaced) == true)
    #expect(try await serverAnswer(cluster, path + "?before=!").status == 400)
  }

  private func waitForUnread(_ device: TestDevice, _ unread: UInt32) async throws {
    try await device.wait("\(unread) unread") {
      if case .history(let state) = $0 { state.unread == unread } else { false }
    }
  }

  @Test func eachCallOnceOnBothSidesWhateverDies() async throws {
    let cluster = try await TestCluster.start(coordinators: 2, edges: 1)
    defer { cluster.stop() }
    let alice = try await TestDevice(cluster, user: "alice", "a1", edges: ["e1"])
    defer { alice.stop() }
    #expect(await page(alice) == nil, "the app has none")
    let refused = try await serverAnswer(cluster, "/v1/app/users/bob/history")
    #expect(refused.status == 403)
    try await switchOn(cluster, alice)
    let phone = try await TestDevice(
      cluster, user: "bob", "phone", edges: ["e1"], wantsHistory: true)
    let tablet = try await TestDevice(
      cluster, user: "bob", "tablet", edges: ["e1"], codec: .json, wantsHistory: true)
    defer { for device in [phone, tablet] { device.stop() } }
    for device in [phone, tablet] { try await waitForUnread(device, 0) }

    let answered = CallID.random()
    try await alice.device.place(PlaceRequest(call: answered, video: true), to: "bob")
    try await phone.waitForInvite(answered)
    #expect(try await phone.device.answer(answered))
    try await alice.waitForAnswer(answered)
    try await alice.device.hangUp(answered)
    let missed = CallID.random()
    try await alice.device.place(PlaceRequest(call: missed), to: "bob")
    try await phone.waitForInvite(missed)
    try await alice.device.cancel(missed)
    let others = (0..<15).map { _ in CallID.random() }
    for (number, call) in others.enumerated() {
      try await alice.device.place(PlaceRequest(call: call), to: "nobody-\(number)")
      try await alice.waitForStop(call, .unreachable)
    }
    // Some of the entries are not stored yet: whoever takes over stores them.
    for name in ["c1", "c2"] { cluster.kill(name) }
    for name in ["c1", "c2"] { try cluster.startCoordinator(name) }

    let all = Set([answered, missed] + others)
    try await eventually("alice's side") { Set(await history(alice)?.map(\.call) ?? []) == all }
    try await eventually("bob's side") { await history(phone)?.count == 2 }
    let placed = try #require(await history(alice))
    #expect(placed.count == all.count, "each once")
    #expect(placed.allSatisfy { $0.isPlaced && !$0.isMissed && $0.device == "a1" })
    let received = try #require(await history(phone))
    #expect(received.map(\.call) == [missed, answered])
    #expect(received.map(\.isMissed) == [true, false])
    #expect(received.map(\.reason) == [.cancelled, .hungUp])
    #expect(received.map(\.device) == [nil, "phone"])
    #expect(received.map(\.video) == [false, true])
    #expect(received.allSatisfy { !$0.isPlaced && $0.peer == "alice" })

    // Read on one device, read on all.
    for device in [phone, tablet] { try await waitForUnread(device, 1) }
    try await checkServer(cluster, phone)
    let newest = try #require(await page(phone))
    #expect(newest.state.unread == 1)
    let cursor = try #require(newest.items.first?.cursor)
    let marked = try await phone.device.markHistoryRead(upTo: cursor)
    #expect(marked.state.unread == 0 && marked.readUpTo == cursor)
    try await tablet.wait("the mark") {
      if case .history(let state) = $0 { state == marked.state } else { false }
    }
    let http = EdgeHTTPClient(edges: [cluster.url("e1")])
    let seen = try await http.history(limit: 1, token: tablet.token)
    #expect(seen.state == marked.state && seen.readUpTo == cursor)
    #expect(seen.items.map(\.entry.call) == [missed] && seen.next == cursor)
    // Less than before changes nothing.
    let first = try #require(await page(phone)?.items.last?.cursor)
    let again = try await http.markHistoryRead(upTo: first, token: tablet.token)
    #expect(again.state == marked.state && again.readUpTo == cursor)
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
