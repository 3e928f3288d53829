import CallCore
import Testing

/// Data that a caller's app gives to the callee's apps: in pushes that ring, and in the invite.
@Suite struct PushDataTests {
  private static let data = #"{"room":7,"text":"größe"}"#

  /// b1 sleeps and takes every clean-up; b2 has a session.
  private func placed(_ data: String = data, limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
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

  @Test("in the ring push and in the invite") func reachesAll() {
    let bench = placed()
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(bench.pushes.map(\.pushData) == [Self.data])
    #expect(bench.invites("b2").map(\.pushData) == [Self.data])
  }

  @Test("a device that a push woke gets it with its invite as well") func afterWaking() {
    var bench = placed()
    bench.report(.accepted, "b1", token: "v1")
    bench.attach("b1")
    #expect(bench.invites("b1").map(\.pushData) == [Self.data])
  }

  @Test("no other push has it", arguments: [true, false]) func onlyTheRing(isAnswered: Bool) {
    var bench = placed()
    bench.report(.accepted, "b1", token: "v1")
    _ = bench.take()
    if isAnswered {
      bench.say(.call(Bench.callID, .answer(description: "")), device: "b2")
    } else {
      bench.caller(.call(Bench.callID, .cancel))
    }
    #expect(!bench.pushes.isEmpty)
    #expect(bench.pushes.allSatisfy { $0.pushData.isEmpty })
  }

  @Test("R10: a new owner has it from journal or checkpoint", arguments: [false, true])
  func aNewOwner(checkpoint: Bool) {
    let bench = placed()
    let next = bench.takenOver(checkpoint: checkpoint, registered: ["b1"], attached: ["b2"])
    #expect(next.pushes.map(\.pushData) == [Self.data])
    #expect(next.invites("b2").map(\.pushData) == [Self.data])
  }

  @Test("R9: the same place again is the same call, with other data it is another")
  func repeated() {
    var bench = placed()
    #expect(place(Self.data, &bench)?.state?.phase == .placed)
    #expect(place("other", &bench)?.error == .callIDTaken)
    #expect(place("", &bench)?.error == .callIDTaken)
  }

  @Test("a header is no data: their texts do not stand for each other") func notAHeader() {
    var bench = placed("xa")
    let other = PlaceRequest(
      call: Bench.callID, description: "offer", headers: [CustomHeader(name: "x", value: "a")])
    #expect(bench.say(.place(other), user: "alice", device: "alice1")?.error == .callIDTaken)
  }

  @Test("the limit is in the sentence", arguments: [1024, 16]) func tooLarge(limit: Int) {
    var limits = CallLimits()
    limits.pushDataBytes = limit
    var bench = Bench(limits: limits)
    bench.attach("b1")
    let reply = place(String(repeating: "x", count: limit + 1), &bench)
    guard case .error(let error)? = reply else {
      Issue.record("not refused: \(String(describing: reply))")
      return
    }
    #expect(error.code == .pushDataTooLarge)
    #expect(error.message == "The data for pushes are at most \(limit) bytes.")
    #expect(bench.invites("b1").isEmpty)
    #expect(place(String(repeating: "x", count: limit), &bench)?.state?.phase == .placed)
    #expect(CallLimits().pushDataBytes == 1024)
  }
}
