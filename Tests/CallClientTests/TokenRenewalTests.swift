import CallClient
import CallCore
import CallWire
import Testing

@Suite struct TokenRenewalTests {
  private func device() -> Device {
    Device(edges: ["a"]) { $0.renewsToken = true }
  }

  private let expires = ServerFrame.notice(Notice(kind: .tokenExpires, message: ""))

  /// Connects.
  /// - Returns: the tokens that the device shows with its attach.
  private func tokens(_ device: inout Device) -> [String] {
    device.open()
    return device.said().compactMap {
      if case .attach(let attach) = $0 { attach.token } else { nil }
    }
  }

  private func isConnect(_ action: ClientMachine.Action) -> Bool {
    if case .connect = action { true } else { false }
  }

  /// The device's first attach is refused.
  private func refused(_ code: CallError.Code) -> Device {
    var device = device()
    device.start()
    device.open()
    device.answerAttach(.error(CallError(code)))
    return device
  }

  private func renewed(_ device: inout Device, _ token: String?) {
    device.machine.tokenRenewed(token, &device.turn)
  }

  @Test func theNoticeIsAnsweredWithANewToken() {
    var device = device()
    device.attach()
    device.hear(expires)
    #expect(device.take().contains(.renewToken))
    // It is asked for once.
    device.hear(expires)
    #expect(!device.take().contains(.renewToken))
    renewed(&device, "t2")
    #expect(device.said() == [.renew(token: "t2")])
    #expect(device.machine.isAttached)
    // The next session begins with it.
    device.close()
    device.pass(.seconds(2))
    #expect(tokens(&device) == ["t2"])
  }

  /// An attach with the same token would be refused, and count as such.
  @Test(arguments: [4008, 4009] as [UInt16])
  func aSessionThatEndedWithItsTokenNeedsANewOne(code: UInt16) {
    var device = device()
    device.attach()
    device.close(code)
    #expect(device.take().contains(.renewToken))
    device.pass(.seconds(2))
    #expect(!device.take().contains(.connect(edge: 0)))
    renewed(&device, "t2")
    device.pass(.seconds(20))
    #expect(tokens(&device) == ["t2"])
  }

  /// The app's server hangs: the device is not locked out for good.
  @Test func aTokenThatNeverComesIsAskedForAnew() {
    var device = device()
    device.attach()
    device.hear(expires)
    #expect(device.take().contains(.renewToken))
    device.pass(.seconds(29))
    device.hear(expires)
    #expect(!device.take().contains(.renewToken))
    device.pass(.seconds(2))
    device.hear(expires)
    #expect(device.take().contains(.renewToken))
    renewed(&device, "t2")
    #expect(device.said() == [.renew(token: "t2")])
  }

  @Test func withoutASourceTheNoticeIsOnlyTold() {
    var device = Device.attached()
    device.hear(expires)
    let actions = device.take()
    #expect(!actions.contains(.renewToken))
    #expect(actions.contains(.event(.notice(Notice(kind: .tokenExpires, message: "")))))
  }

  /// The session ended with its token, or the token was revoked: the edge refuses it.
  @Test(arguments: [CallError.Code.expired, .revoked])
  func whoIsRefusedForTheTokenGetsANewOne(code: CallError.Code) {
    var device = refused(code)
    var actions = device.take()
    #expect(actions.contains(.renewToken) && actions.contains(.close))
    // No attempt is made with the old one, however long the new one takes.
    for _ in 0..<20 {
      device.pass(.seconds(16))
      actions += device.take()
    }
    #expect(!actions.contains(where: isConnect))
    renewed(&device, "t2")
    device.pass(.seconds(16))
    #expect(tokens(&device) == ["t2"])
  }

  @Test func aTokenThatCannotBeHadIsAskedForAgain() {
    var device = refused(.expired)
    _ = device.take()
    renewed(&device, nil)
    device.pass(.seconds(16))
    let actions = device.take()
    #expect(actions.contains(.renewToken))
    #expect(!actions.contains(where: isConnect))
  }

  /// A source that gives bad tokens does not make the device knock without end.
  @Test func newTokensThatAreRefusedAreTriedEverMoreSlowly() {
    var device = device()
    device.start()
    var attaches = 0
    for _ in 0..<600 {
      for action in device.take() {
        switch action {
        case .connect: device.open()
        case .renewToken: renewed(&device, "bad")
        case .send(let frame):
          attaches += 1
          device.refuse(frame.id, .expired)
        default: break
        }
      }
      device.pass(.milliseconds(100))
    }
    // In a minute.
    #expect((3...20).contains(attaches), "\(attaches)")
  }

  /// Where one token was good before, another key may have taken the place of the one that signed it.
  @Test func aTokenThatIsNotAcceptedAnyMoreIsReplaced() {
    #expect(refused(.notAccepted).machine.state == .stopped)
    var device = device()
    device.attach()
    device.close()
    device.pass(.seconds(2))
    device.open()
    device.answerAttach(.error(CallError(.notAccepted)))
    #expect(device.take().contains(.renewToken))
  }

  /// A device of this version gets a frame of a later version of the edge.
  @Test(arguments: DeviceCodec.allCases)
  func aNoticeOfAnUnknownKindIsPassedOver(codec: DeviceCodec) throws {
    // Kind 99; in JSON a name that nobody knows.
    let bytes: [UInt8] =
      codec == .json
      ? Array(#"{"notice":{"kind":"laterThing","message":"m"}}"#.utf8)
      : [0x1a, 0x05, 0x08, 99, 0x12, 0x01, 0x6d]
    let frame = try bytes.withUnsafeBytes { try codec.decodeServer($0) }
    #expect(frame == .notice(Notice(kind: .unknown, message: "m")))
    var device = device()
    device.attach()
    device.hear(frame)
    #expect(device.machine.isAttached)
  }

  @Test func theFirstTokenIsFetchedWhereNoneIsGiven() {
    var device = Device(edges: ["a"]) {
      $0.token = ""
      $0.renewsToken = true
    }
    device.start()
    #expect(device.take() == [.renewToken])
    // It is slow; the device asks for it once, and connects as soon as it has it.
    device.pass(.seconds(1))
    #expect(device.take().isEmpty)
    renewed(&device, "first")
    #expect(device.take() == [.connect(edge: 0)])
    #expect(tokens(&device) == ["first"])
  }
}
