import CallCore
import CallLoadKit
import CallTestKit
import Testing

/// Each process has users of its own, and draws its own calls.
@Suite("Users of parts") struct PartSplitTests {
  @Test(
    "every device is in one part, and every user whole",
    arguments: [(100, 3, 2), (100_000, 3, 6), (61, 5, 4), (12, 3, 2), (7, 1, 3), (1_000, 24, 20)])
  func split(devices: Int, perUser: Int, count: Int) {
    let parts = LoadPart.split(devices: devices, devicesPerUser: perUser, count: count)
    #expect(parts.map(\.number) == Array(0..<count))
    #expect(parts.map(\.devices).reduce(0, +) == devices)
    let whole = Roster(devices: devices, devicesPerUser: perUser)
    var names: [String] = []
    for part in parts {
      let roster = Roster(
        devices: part.devices, devicesPerUser: perUser, firstUser: part.firstUser)
      #expect(roster.users >= 2, "a call needs two users")
      #expect(abs(roster.users - whole.users / count) <= 1)
      names += (0..<part.devices).map { name(roster.party($0)) }
    }
    #expect(names == (0..<devices).map { name(whole.party($0)) })
  }

  private func name(_ party: Party) -> String { "\(party.user) \(party.device.text)" }

  @Test("a party of another part is no device of this one") func strangers() {
    let roster = Roster(devices: 30, devicesPerUser: 3, firstUser: 10)
    #expect(roster.device(Party(user: "u10", device: DeviceID("d0"))) == 0)
    #expect(roster.device(Party(user: "u19", device: DeviceID("d2"))) == 29)
    for other in ["u9", "u20", "u0"] {
      #expect(roster.device(Party(user: other, device: DeviceID("d0"))) == nil)
    }
  }

  @Test("every call is in one part", arguments: [0, 1, 5, 6_000, 6_001])
  func calls(_ calls: Int) {
    let parts = LoadPart.split(devices: 900, devicesPerUser: 3, count: 7)
    #expect(parts.map { $0.share(of: calls) }.reduce(0, +) == calls)
  }

  @Test("parts draw apart, the same ones each time") func seeds() {
    func seed(_ part: LoadPart, _ seed: UInt64) -> UInt64 {
      var options = LoadOptions(edges: []) { _, _ in "" }
      options.part = part
      options.seed = seed
      return options.ownSeed
    }
    let parts = LoadPart.split(devices: 900, devicesPerUser: 3, count: 7)
    let seeds = parts.map { seed($0, 5) }
    #expect(Set(seeds).count == 7)
    #expect(seeds == parts.map { seed($0, 5) })
    #expect(seeds[0] == 5, "the first part draws as a run in one process does")
    #expect(Set(seeds).isDisjoint(with: parts.map { seed($0, 6) }))
  }

  /// The same load in three fleets, each with its own users on one cluster.
  @Test("three parts make the calls of the whole") func fleets() throws {
    let loop = VirtualDeviceLoop()
    let twin = FaultyTwin(loop: loop)
    let parts = LoadPart.split(devices: 91, devicesPerUser: 3, count: 3)
    let fleets = parts.map { part in
      var options = LoadOptions(edges: ["ws://twin:1"]) { user, device in
        FaultyTwin.token(user: user, device: device)
      }
      options.devices = part.devices
      options.part = part
      options.seed = 3
      return DeviceFleet(
        options: options, progress: LoadProgress(), loop: loop, network: twin,
        nonce: UInt64(part.number))
    }
    var connected = 0
    for fleet in fleets { try fleet.connect { connected += 1 } }
    #expect(loop.run(for: .seconds(60)) { connected == 3 })
    var results: [RunResult] = []
    for (fleet, part) in zip(fleets, parts) {
      fleet.load(calls: part.share(of: 100), duration: 20) { results.append($0) }
    }
    // A fleet lives as long as somebody holds it.
    withExtendedLifetime(fleets) {
      #expect(loop.run(for: .seconds(120)) { results.count == 3 })
    }
    var sum = RunResult()
    for result in results { sum.add(result) }
    sum.lost(registrations: twin.registered.count)
    #expect(sum.devicesConnected == 91)
    #expect(sum.callsCompleted == 100, "\(sum.failures)")
    #expect(sum.isCorrect)
  }
}
