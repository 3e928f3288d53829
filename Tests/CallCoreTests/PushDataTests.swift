import CallCore
import Testing

/// Data that a caller's app gives to the callee's apps: in pushes that ring, and in the invite.
@Suite struct PushDataTests {
  private static let data = #"{"room":7,"text":"größe"}"#

  /// b1 sleeps and takes every clean-up; b2 has a session.
  private func placed(_ data: String = data) -> Bench {
    var bench = Bench()
    bench.enrol(
      "b1", voip: "v1", alert: "a1", can: [.missed, .answeredElsewhere, .ended, .missedNotice])
    bench.attach("b2")
    _ = bench.take()
    place(data, &bench)
    return bench
  }

  @discardableResult
  private func place(_ data: String, _ bench: inout Bench) -> Reply? {
    bench.say(
      .place(PlaceRequest(call: Bench.callID, description: "offer", pushData: data)),
      user: "alice", device: "alice1")
  }

  @Test("in the ring push and in the invites, also of the device it woke") func reachesAll() {
    var bench = placed()
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(bench.pushes.map(\.pushData) == [Self.data])
    #expect(bench.invites("b2").map(\.pushData) == [Self.data])
    bench.report(.accepted, "b1", token: "v1")
    bench.attach("b1")
    #expect(bench.invites("b1").map(\.pushData) == [Self.data])
  }

  @Test("no other push has it", arguments: [true, false]) func onlyTheRing(isAnswered: Bool) {
    var bench = placed()
    bench.report(.accepted, "b1", token: "v1")
    _ = bench.take()
    if isAnswered { bench.answer("b2") } else { bench.caller(.cancel) }
    #expect(!bench.pushes.isEmpty)
    #expect(bench.pushes.allSatisfy { $0.pushData.isEmpty })
  }

  @Test("R10: a new owner has it", arguments: [false, true]) func aNewOwner(checkpoint: Bool) {
    let bench = placed()
    let next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"], attached: ["b2"])
    #expect(next.pushes.map(\.pushData) == [Self.data])
    #expect(next.invites("b2").map(\.pushData) == [Self.data])
  }

  /// A header is no data: their texts do not stand for each other.
  @Test("R9: the same place again is the same call, with other data another") func repeated() {
    var bench = placed("xa")
    #expect(place("xa", &bench)?.state?.phase == .placed)
    for other in ["other", ""] { #expect(place(other, &bench)?.error == .callIDTaken) }
    let header = PlaceRequest(
      call: Bench.callID, description: "offer", headers: [CustomHeader(name: "x", value: "a")])
    #expect(bench.say(.place(header), user: "alice", device: "alice1")?.error == .callIDTaken)
  }

  @Test("the limit is in the sentence", arguments: [1024, 16]) func tooLarge(limit: Int) {
    var bench = Bench(limits: .with { $0.pushDataBytes = limit })
    bench.attach("b1")
    let reply = place(String(repeating: "x", count: limit + 1), &bench)
    #expect(reply?.error == .pushDataTooLarge)
    #expect(reply?.message == "The data for pushes are at most \(limit) bytes.")
    #expect(bench.invites("b1").isEmpty)
    #expect(place(String(repeating: "x", count: limit), &bench)?.state?.phase == .placed)
    #expect(CallLimits().pushDataBytes == 1024)
  }
}
