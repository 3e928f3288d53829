import CallClient
import CallCore
import CallLoadKit
import CallTestKit
import Testing

/// The edge of each device, by which the judge decides what a fault of an edge explains.
@Suite("At which edge a device is") struct EdgeMoveTests {
  private static let devices = 12

  private struct Fixture {
    let loop: VirtualDeviceLoop
    let twin: FaultyTwin
    let fleet: DeviceFleet

    init() throws {
      let loop = VirtualDeviceLoop()
      let twin = FaultyTwin(loop: loop, seed: 5)
      self.loop = loop
      self.twin = twin
      var options = LoadOptions(edges: ["ws://twin-1:1", "ws://twin-2:1"]) { user, device in
        FaultyTwin.token(user: user, device: device)
      }
      options.devices = EdgeMoveTests.devices
      options.seed = 5
      fleet = DeviceFleet(
        options: options, progress: LoadProgress(), loop: loop, network: twin, nonce: 5)
      var isConnected = false
      try fleet.connect { isConnected = true }
      try #require(loop.run(for: .seconds(60), until: { isConnected }))
    }

    var places: [[Int]] { [fleet.devices(at: 0), fleet.devices(at: 1)] }
  }

  @Test("a device that moves is at its new edge, and no other is")
  func movers() throws {
    let fixture = try Fixture()
    let before = fixture.places
    #expect(before[0].count + before[1].count == Self.devices)
    #expect(!before[0].isEmpty && !before[1].isEmpty, "the devices share the edges")
    // Half of those at the first edge are told to go.
    let movers = Set(before[0].prefix(before[0].count / 2))
    try #require(!movers.isEmpty)
    for device in movers { fixture.twin.sendAway(fixture.fleet.roster.party(device)) }
    _ = fixture.loop.run(for: .seconds(5), until: { false })
    let after = fixture.places
    #expect(after[0] == before[0].filter { !movers.contains($0) })
    #expect(after[1] == (before[1] + movers).sorted())
  }

  @Test("a device that is sent away twice is back where it was")
  func thereAndBack() throws {
    let fixture = try Fixture()
    let before = fixture.places
    let device = try #require(before[1].first)
    fixture.twin.sendAway(fixture.fleet.roster.party(device))
    _ = fixture.loop.run(for: .seconds(5), until: { false })
    #expect(fixture.fleet.devices(at: 0).contains(device))
    fixture.twin.sendAway(fixture.fleet.roster.party(device))
    _ = fixture.loop.run(for: .seconds(5), until: { false })
    #expect(fixture.places == before)
  }
}
