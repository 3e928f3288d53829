import CallClient
import CallCore
import CallWire
import Testing

/// Credentials for TURN servers, as a device gets them.
@Suite struct ClientRelayTests {
  private static func credentials(_ password: String) -> RelayCredentials {
    RelayCredentials(
      urls: ["turn:turn.example"], username: "1:me", password: password,
      expiresAt: Timestamp(microseconds: 1_000_000))
  }

  @Test("a device that wants them asks, and its app gets the first and each new ones")
  func asked() {
    var device = Device()
    device.machine = ClientMachine(Device.configuration { $0.wantsRelays = true })
    device.start()
    device.open()
    var info = AttachedInfo.sample
    info.relays = Self.credentials("one")
    var asks: [Bool] = []
    for frame in device.take().frames {
      guard case .attach(let request) = frame.command else { continue }
      asks.append(request.wantsRelays)
      device.hear(.reply(id: frame.id, .attached(info)))
    }
    #expect(asks == [true])
    device.hear(.relays(Self.credentials("two")))
    let events = device.take().events
    #expect(events.contains(.attached(info, again: false)))
    #expect(events.contains(.relays(Self.credentials("two"))))
  }
}
