import CallCore
import CallLoadKit
import CallTestKit
import Foundation
import Testing

/// Each slice has users of its own, and draws its own calls.
@Suite("Slices") struct SliceTests {
  private func slices(_ count: Int) throws -> [LoadSlice] {
    try (1...count).map { try LoadSlice.parse("\($0)/\(count)") }
  }

  @Test(
    "every device is in one slice, and every user whole",
    arguments: [(100, 3, 2), (100_000, 3, 6), (61, 5, 4), (12, 3, 2), (7, 1, 3), (1_000, 24, 20)])
  func rosters(devices: Int, perUser: Int, count: Int) throws {
    let whole = Roster(devices: devices, devicesPerUser: perUser)
    let rosters = try slices(count).map { $0.roster(of: whole) }
    #expect(rosters.map(\.devices).reduce(0, +) == devices)
    for roster in rosters {
      #expect(roster.users >= 2, "a call needs two users")
      #expect(abs(roster.users - whole.users / count) <= 1)
    }
    #expect(rosters.flatMap(names) == names(whole))
  }

  private func names(_ roster: Roster) -> [String] {
    (0..<roster.devices).map {
      let party = roster.party($0)
      return "\(party.user) \(party.device.text)"
    }
  }

  @Test("a party of another slice is no device of this one") func strangers() {
    let roster = Roster(devices: 30, devicesPerUser: 3, firstUser: 10)
    #expect(roster.device(Party(user: "u10", device: DeviceID("d0"))) == 0)
    #expect(roster.device(Party(user: "u19", device: DeviceID("d2"))) == 29)
    for other in ["u9", "u20", "u0"] {
      #expect(roster.device(Party(user: other, device: DeviceID("d0"))) == nil)
    }
  }

  @Test("every call is in one slice", arguments: [0, 1, 5, 6_000, 6_001])
  func calls(_ calls: Int) throws {
    #expect(try slices(7).map { $0.share(of: calls) }.reduce(0, +) == calls)
  }

  @Test(
    "what is no slice is refused",
    arguments: ["", "2", "0/2", "3/2", "1/65", "1/0", "-1/2", "1/2/3", "a/b", "1/"])
  func nonsense(_ text: String) { #expect(throws: (any Error).self) { try LoadSlice.parse(text) } }

  @Test("slices draw apart, the same each time") func seeds() throws {
    func seeds(_ seed: UInt64) throws -> [UInt64] {
      try slices(7).map { slice in
        var options = LoadOptions(edges: []) { _, _ in "" }
        (options.slice, options.seed) = (slice, seed)
        return options.ownSeed
      }
    }
    #expect(try Set(seeds(5) + seeds(6)).count == 14)
    #expect(try seeds(5) == seeds(5))
    #expect(try seeds(5)[0] == 5, "the first slice draws as a whole run does")
  }

  @Test("what does not go with a slice") func refusals() {
    let slice = ["--slice", "2/3", "--seed", "1", "--edge", "ws://h:1"]
    #expect(refusal("--slice", "2/3", "--edge", "ws://h:1").contains("the same --seed"))
    #expect(
      refusal("--slice", "2/3", "--seed", "1").contains("give --edge, or a folder with --meet"))
    #expect(refusal("--meet", "/tmp").hasPrefix("--meet /tmp: goes with --slice only"))
    for other in [["--find-max"], ["--hostile", "each"], ["--check-growth"]] {
      #expect(
        refusal(slice + other).hasPrefix("--slice 2/3: does not go with \(other[0])"), "\(other)")
    }
    #expect(
      refusal("--slice", "1/3", "--devices", "12", "--seed", "1", "--meet", "/tmp")
        == "--slice 1/3: a slice needs two users; give at most 2 slices")
  }

  @Test("settings are those of the run") func settings() throws {
    let plan = try plan(
      "--slice", "2/3", "--seed", "1", "--meet", "/tmp", "--devices", "61", "--rate", "30")
    #expect((plan.roster.firstUser, plan.roster.devices) == (7, 21))
    #expect((plan.settings.devices, plan.settings.callsPerSecond) == (61, 30))
    #expect((plan.settings.slice, plan.settings.processes) == (2, 3))
    #expect(!plan.settings.webhooks && !plan.settings.history)
  }

  @Test("no slice passes a point before all are there; a used folder is refused")
  func meeting() async throws {
    let folder = NSTemporaryDirectory() + "/callmesh-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let meetings = try slices(3).map { Meeting(folder: folder, slice: $0) }
    var looks = 0
    func looksTwice() -> Bool {
      looks += 1
      return looks < 3
    }
    try await meetings[0].wait(at: .begun, isWanted: looksTwice)
    #expect(looks == 3, "the others are not there yet")
    try await meetings[1].wait(at: .begun) { false }
    looks = 0
    try await meetings[2].wait(at: .begun, isWanted: looksTwice)
    #expect(looks == 1, "all are there")
    await #expect(throws: SetupError.self) { try await meetings[0].wait(at: .begun) { true } }
  }

  /// The same load in three fleets, each with its own users on one cluster.
  @Test("three slices make the calls of the whole") func fleets() throws {
    let loop = VirtualDeviceLoop()
    let twin = FaultyTwin(loop: loop)
    let fleets = try slices(3).map { slice in
      let roster = slice.roster(of: Roster(devices: 91, devicesPerUser: 3))
      var options = LoadOptions(edges: ["ws://twin:1"]) { user, device in
        FaultyTwin.token(user: user, device: device)
      }
      (options.slice, options.seed) = (slice, 3)
      (options.devices, options.firstUser) = (roster.devices, roster.firstUser)
      return DeviceFleet(
        options: options, progress: LoadProgress(), loop: loop, network: twin,
        nonce: UInt64(slice.number))
    }
    var connected = 0
    for fleet in fleets { try fleet.connect { connected += 1 } }
    #expect(loop.run(for: .seconds(60)) { connected == 3 })
    var results: [RunResult] = []
    for fleet in fleets { fleet.load(rate: 5, duration: 20) { results.append($0) } }
    // A fleet lives as long as somebody holds it.
    withExtendedLifetime(fleets) {
      #expect(loop.run(for: .seconds(120)) { results.count == 3 })
    }
    #expect(results.map(\.devicesConnected).reduce(0, +) == 91)
    #expect(results.map(\.devicesRegistered).reduce(0, +) == twin.registered.count)
    // They stand in the order in which the fleets end.
    #expect(results.map(\.callsExpected).sorted() == [33, 33, 34])
    #expect(results.allSatisfy { $0.callsCompleted == $0.callsExpected && $0.isCorrect })
  }
}
