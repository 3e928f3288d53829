import CallClient
import CallCore
import CallTestKit
import CallWire
import Foundation
import Testing

/// The traces that outlive a call, in a cluster of real processes: its record, its entry in the histories of both
/// users, and the events that the app gets by webhook. Each comes once, whichever node dies.
@Suite(.timeLimit(.minutes(10)), .serialized)
struct AfterTheCallTests {
  private struct Stage {
    var cluster: TestCluster
    var receiver: WebhookReceiver
    var alice: TestDevice
    var phone: TestDevice
    var tablet: TestDevice
  }

  /// Calls from alice.
  private struct Calls {
    let answered = CallID.random()
    let missed = CallID.random()
    /// To users who have no device.
    let others = (0..<20).map { _ in CallID.random() }
    var all: Set<CallID> { Set([answered, missed] + others) }
  }

  @Test func eachCallOnceWhateverDies() async throws {
    let receiver = WebhookReceiver()
    let server = try await SimulatedHTTPServer.start(authority: nil) { receiver.take($0) }
    let cluster = try await TestCluster.start(coordinators: 0, edges: 0, waits: false)
    defer { cluster.stop() }
    try cluster.changeApp {
      $0["history"] = true
      $0["webhooks"] = [["url": "\(server.origin)/events", "secrets": [WebhookReceiver.secret]]]
    }
    // Each process is an edge, a coordinator and a gateway.
    let edges = ["n1", "n2"]
    try await start(cluster)
    let alice = try await cluster.device("alice", "a1", edges: edges)
    let phone = try await cluster.device("bob", "phone", edges: edges, wantsHistory: true)
    let tablet = try await cluster.device(
      "bob", "tablet", edges: edges, codec: .json, wantsHistory: true)
    let stage = Stage(
      cluster: cluster, receiver: receiver, alice: alice, phone: phone, tablet: tablet)
    let calls = Calls()

    try await play(calls, stage)
    try await checkRecords(calls, stage)
    try await checkHistories(calls, stage)
    try await checkReading(calls, stage)
    try await checkWebhooks(calls, stage)
    await server.stop()
  }

  /// The shards forget ended calls at once, so it is the records that answer.
  private func start(_ cluster: TestCluster) async throws {
    for name in ["n1", "n2"] {
      try cluster.startEdge(name, role: "all", ["--ended-call-kept", "1s"])
    }
    for name in ["n1", "n2"] { try await cluster.waitUntilReady(name) }
  }

  private func play(_ calls: Calls, _ stage: Stage) async throws {
    let (cluster, receiver, alice, phone) =
      (stage.cluster, stage.receiver, stage.alice, stage.phone)
    for device in [phone, stage.tablet] { try await waitForUnread(device, 0) }
    try await alice.device.place(PlaceRequest(call: calls.answered, video: true), to: "bob")
    try await phone.waitForInvite(calls.answered)
    #expect(try await lines(cluster, "--live").map(\.call) == ["\(calls.answered)"])
    #expect(try await phone.device.answer(calls.answered))
    try await alice.waitForAnswer(calls.answered)
    try await alice.device.hangUp(calls.answered)
    try await eventually("the answered call") {
      receiver.events(calls.answered) == ["call.placed", "call.answered", "call.ended"]
    }
    try await alice.device.place(PlaceRequest(call: calls.missed), to: "bob")
    try await phone.waitForInvite(calls.missed)
    try await alice.device.cancel(calls.missed)

    receiver.goAway(true)
    // Together: the longer the app's server is away, the longer is the pause before it is tried again.
    for (number, call) in calls.others.enumerated() {
      try await alice.device.place(PlaceRequest(call: call), to: "nobody-\(number)")
    }
    for call in calls.others { try await alice.waitForStop(call, .unreachable) }
    try await eventually("an attempt that fails") { receiver.failed > 0 }
    // Some of it is not stored yet, and none of the others' events is delivered: whoever takes over does that.
    for name in ["n1", "n2"] { cluster.kill(name) }
    receiver.goAway(false)
    try await start(cluster)
    let status = try await cluster.callctl("status", "--once")
    for part in ["n1-coordinator", "n2-coordinator", "n1-edge", "n2-edge"] {
      #expect(status.text.contains(part), "\(status.text)")
    }
  }

  // MARK: Records

  private struct Line: Decodable {
    var call: String
    var phase: String
    var reason: String?
  }

  private func lines(_ cluster: TestCluster, _ arguments: String...) async throws -> [Line] {
    let output = try await cluster.callctl(["calls", "--json", "--limit", "1000"] + arguments)
    #expect(output.status == 0, "\(output.text)")
    return try output.text.split(separator: "\n").map {
      try JSONDecoder().decode(Line.self, from: Data($0.utf8))
    }
  }

  private func checkRecords(_ calls: Calls, _ stage: Stage) async throws {
    let cluster = stage.cluster
    let all = Set(calls.all.map(\.description))
    try await eventually("every call has a record") {
      Set(try await lines(cluster, "--ended").map(\.call)) == all
    }
    let found = try await lines(cluster, "--ended")
    #expect(found.count == all.count, "each once")
    #expect(found.first { $0.call == "\(calls.answered)" }?.reason == "hungUp")
    #expect(try await lines(cluster, "--reason", "unreachable").count == calls.others.count)
    #expect(try await lines(cluster, "--user", "bob").count == 2)
    #expect(try await lines(cluster, "--since", "1h", "--app", "demo").count == all.count)
    #expect(try await lines(cluster, "--since", "2100-01-01").isEmpty)
    #expect(try await lines(cluster, "--live").isEmpty)
    let csv = try await cluster.told("calls", "--csv", "--ended")
    #expect(csv.split(separator: "\r\n").count == 1 + all.count)

    // The shard forgets the call, and its record goes on answering.
    var text = ""
    try await eventually("the record answers") {
      text = try await cluster.told("call", "\(calls.answered)")
      return text.contains("its record, written when it had ended")
    }
    #expect(text.contains("ended, hungUp by alice") && text.contains("phone"), "\(text)")
    #expect(try await cluster.callctl("call", "\(CallID.random())").status == 1)
  }

  @Test func aClusterWithoutRecords() async throws {
    // A file serves all roles; edges do not take a coordinator's flag.
    let cluster = try await TestCluster.start(
      coordinators: 1, edges: 1, settings: #"{"callRecordsKept": "0s"}"#)
    defer { cluster.stop() }
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    let call = try await alice.place(to: "nobody")
    try await alice.waitForStop(call, .unreachable)
    // The calls that the shards remember.
    #expect(try await lines(cluster).map(\.call) == ["\(call)"])
    #expect(try await lines(cluster, "--ended").map(\.reason) == ["unreachable"])
    #expect(try await cluster.callctl("calls", "--follow").status == 1)
    #expect(try await cluster.callctl("call", "\(call)").status == 0)
  }

  // MARK: Histories

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

  private func waitForUnread(_ device: TestDevice, _ unread: UInt32) async throws {
    try await device.wait("\(unread) unread") {
      if case .history(let state) = $0 { state.unread == unread } else { false }
    }
  }

  private func checkHistories(_ calls: Calls, _ stage: Stage) async throws {
    let (alice, phone) = (stage.alice, stage.phone)
    try await eventually("alice's side") {
      Set(await history(alice)?.map(\.call) ?? []) == calls.all
    }
    try await eventually("bob's side") { await history(phone)?.count == 2 }
    let placed = try #require(await history(alice))
    #expect(placed.count == calls.all.count, "each once")
    #expect(placed.allSatisfy { $0.isPlaced && !$0.isMissed && $0.device == "a1" })
    let received = try #require(await history(phone))
    #expect(received.map(\.call) == [calls.missed, calls.answered])
    #expect(received.map(\.isMissed) == [true, false])
    #expect(received.map(\.reason) == [.cancelled, .hungUp])
    #expect(received.map(\.device) == [nil, "phone"])
    #expect(received.map(\.video) == [false, true])
    #expect(received.allSatisfy { !$0.isPlaced && $0.peer == "alice" })
    for device in [phone, stage.tablet] { try await waitForUnread(device, 1) }
  }

  /// Read on one device, read on all.
  private func checkReading(_ calls: Calls, _ stage: Stage) async throws {
    let (phone, tablet) = (stage.phone, stage.tablet)
    let newest = try #require(await page(phone))
    #expect(newest.state.unread == 1)
    let cursor = try #require(newest.items.first?.cursor)
    let marked = try await phone.device.markHistoryRead(upTo: cursor)
    #expect(marked.state.unread == 0 && marked.readUpTo == cursor)
    try await tablet.wait("the mark") {
      if case .history(let state) = $0 { state == marked.state } else { false }
    }
    let http = EdgeHTTPClient(edges: [stage.cluster.url("n1")])
    let seen = try await http.history(limit: 1, token: tablet.token)
    #expect(seen.state == marked.state && seen.readUpTo == cursor)
    #expect(seen.items.map(\.entry.call) == [calls.missed] && seen.next == cursor)
    // Less than before changes nothing.
    let first = try #require(await page(phone)?.items.last?.cursor)
    let again = try await http.markHistoryRead(upTo: first, token: tablet.token)
    #expect(again.state == marked.state && again.readUpTo == cursor)
  }

  // MARK: Webhooks

  private func checkWebhooks(_ calls: Calls, _ stage: Stage) async throws {
    let (cluster, receiver) = (stage.cluster, stage.receiver)
    func found() -> String {
      calls.others.map { "\($0): \(receiver.events($0))" }.joined(separator: "; ")
    }
    // A dead gateway's jobs are handed out again after 30 s, and the app's server is tried again ever more seldom.
    try await eventually("each call is told in order", seconds: 240, found: found) {
      ([calls.missed] + calls.others).allSatisfy {
        receiver.events($0) == ["call.placed", "call.ended", "call.missed"]
      }
    }
    #expect(receiver.calls() == Set(calls.all.map(\.description)), "none invented")
    #expect(receiver.unsigned == 0)
    let output = try await cluster.told("webhooks", "--json")
    #expect(output.contains("\"app\" : \"demo\""), "\(output)")
    #expect(output.contains("\"host\" : \"localhost\""), "\(output)")
    let letters = try await cluster.told("webhooks", "--app", "demo", "--dead-letters")
    #expect(letters.contains("No event was given up."))
  }
}
