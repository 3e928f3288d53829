import CallCore
import CallLoadKit
import CallWire
import Testing

/// Device 0 calls devices 3 to 5, device 3 answers at 11 s and hangs up at 16 s. Device 1, of the caller's user, and device 4
/// are shown their users' calls.
@Suite("The judge and ongoing calls") struct OngoingJudgeTests {
  /// A state that device 1 is shown, and when; nil: no call.
  private struct Shown {
    var at: Double
    var entry: OngoingCall?
    var version: UInt64
  }

  private let roster = Roster(devices: 9, devicesPerUser: 3)

  private func entry(
    of user: Int, _ change: (inout OngoingCall) -> Void = { _ in }
  ) -> OngoingCall {
    var entry = OngoingCall(
      call: CallID(high: 1, low: 2), callee: "u1", isPlaced: user == 0,
      device: roster.party(user == 0 ? 0 : 3).device, peer: user == 0 ? "u1" : "u0",
      since: at(11.05))
    change(&entry)
    return entry
  }

  private func count(_ shown: [Shown], faultAt: Double? = nil) throws -> Int {
    var call = JudgedCall(attached: [3, 4, 5])
    if let faultAt { call.outage(.freezeEdge, from: faultAt, to: faultAt + 1, carried: [1]) }
    for device in [1, 4] {
      call.checker.beginsToWatch(device, OngoingCalls(version: 1), at: at(5))
    }
    func show(_ device: Int, _ shown: Shown) {
      let state = OngoingCalls(version: shown.version, calls: shown.entry.map { [$0] } ?? [])
      call.checker.received(device: device, .ongoing(state), at: at(shown.at))
    }
    call.answer()
    for device in [4, 5] {
      call.tell(device, .invite(call.invite), 10.1)
      call.tell(device, .stop(Stop(reason: .answeredElsewhere, by: roster.party(3))), 11.05)
    }
    show(4, Shown(at: 11.1, entry: entry(of: 1), version: 2))
    for one in shown where one.at < 16 { show(1, one) }
    call.say(3, .call(call.address, .hangUp), 16)
    call.reply(3, .call(call.ended(.hungUp, by: roster.party(3))), 16.05)
    call.tell(0, .stop(Stop(reason: .hungUp, by: roster.party(3))), 16.05)
    show(4, Shown(at: 16.1, entry: nil, version: 3))
    for one in shown where one.at >= 16 { show(1, one) }
    return try call.count(.ongoingWrongly)
  }

  private var truth: [Shown] {
    [
      Shown(at: 11.1, entry: entry(of: 0), version: 2), Shown(at: 16.1, entry: nil, version: 3),
    ]
  }

  @Test func theTruth() throws {
    #expect(try count(truth) == 0)
    // A retransmission has the same version.
    #expect(try count([truth[0], truth[0], truth[1], truth[1]]) == 0)
  }

  @Test func whatIsNotShown() throws {
    #expect(try count([]) == 1)
    #expect(try count([truth[0]]) == 1, "the end")
    #expect(try count([], faultAt: 13) == 0)
  }

  @Test("what is untrue", arguments: 0..<5) func untruths(number: Int) throws {
    let wrong = entry(of: 0) {
      switch number {
      case 0: $0.peer = "u2"
      case 1: $0.device = roster.party(1).device
      case 2: $0.isPlaced = false
      case 3: $0.since = at(10)
      default: $0.callee = "u2"
      }
    }
    let shown = [Shown(at: 11.1, entry: wrong, version: 2), truth[1]]
    #expect(try count(shown) > 0)
    #expect(try count(shown, faultAt: 13) > 0, "no fault excuses it")
  }

  @Test func versions() throws {
    var shown = truth
    shown[1].version = 2
    #expect(try count(shown) == 2, "the same version is another state, and the end is not shown")
    shown[1].version = 1
    #expect(try count(shown) == 2)
  }

  @Test func aCallOfWhichNothingIsKnown() throws {
    let strange = entry(of: 0) { $0.call = CallID(high: 3, low: 4) }
    #expect(try count(truth + [Shown(at: 20, entry: strange, version: 4)]) == 1)
    let late = entry(of: 0)
    #expect(
      try count(
        truth + [
          Shown(at: 20, entry: late, version: 4), Shown(at: 20.1, entry: nil, version: 5),
        ]) == 1)
  }
}
