import CallCore
import CallLoadKit
import CallWire
import Testing

/// Calls that go on to another user: whom invites must name, and who may ring.
@Suite("The judge and calls that go on") struct ForwardJudgeTests {
  private static let roster = Roster(devices: 9, devicesPerUser: 3)
  private static let call = CallID(high: 1, low: 2)

  /// The rules broken by invites to devices, in a call of device 0.
  /// - Parameters:
  ///   - forwarder: who was called, and sends the call on to devices 3 to 5; nil: these are the callee's.
  ///   - invites: devices, and whom their invites name.
  private func broken(
    forwarder: Int?, invites: KeyValuePairs<Int, String>
  ) throws -> Set<CorrectnessRule> {
    var checker = CallChecker(roster: Self.roster, seed: 1)
    checker.planned(
      CallChecker.Facts(
        call: Self.call, part: .forwarded, caller: 0, callees: 3..<6, placedAt: at(10),
        ringTimeout: .seconds(30),
        route: forwarder.map { .forwarded(by: $0) } ?? .direct))
    let callee = Self.roster.userName(forwarder ?? 1)
    var version: UInt64 = 1
    for (device, name) in invites {
      version += 1
      let invite = Invite(caller: Self.roster.party(0), deadline: at(40), divertedBy: name)
      checker.received(
        device: device,
        .delivery(
          Delivery(
            call: Self.call, callee: callee, version: version, at: at(10.1), event: .invite(invite)
          )), at: at(10.1))
    }
    // Devices without a session need no end.
    let verdict = checker.judge(Self.call, at: at(60)) { _ in false }
    let fate = try #require(verdict).fate
    #expect(fate.callee == callee && fate.wentOn == (forwarder != nil))
    return Set(checker.counts.filter { $0.value > 0 }.keys)
  }

  @Test func theUserWhoSentTheCallOnIsNamed() throws {
    #expect(try broken(forwarder: 2, invites: [3: "u2", 4: "u2", 5: "u2"]) == [])
    #expect(try broken(forwarder: 2, invites: [3: "u2", 4: ""]) == [.forwardedWrongly])
    #expect(try broken(forwarder: 2, invites: [3: "u1"]) == [.forwardedWrongly])
  }

  @Test func nobodyIsNamedWhereNobodySentTheCallOn() throws {
    #expect(try broken(forwarder: nil, invites: [3: "", 4: ""]) == [])
    #expect(try broken(forwarder: nil, invites: [3: "u2"]) == [.forwardedWrongly])
  }

  @Test func theDevicesOfWhoSentTheCallOnDoNotRing() throws {
    #expect(try broken(forwarder: 2, invites: [3: "u2", 6: "u2"]) == [.toldToRingAfterEnd])
  }
}
