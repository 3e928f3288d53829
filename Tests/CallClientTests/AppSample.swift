import CallClient
import CallCore
import CallWire

/// The app's own part: its screens, or CallKit.
protocol CallScreen: Sendable {
  func ring(_ call: CallID, from caller: Party) async
  /// The call is answered: connect the media.
  func connect(_ call: CallID, description: String) async
  func addCandidate(_ call: CallID, _ candidate: String) async
  func end(_ call: CallID, callKitReason: Int) async
  func signIn() async
}

/// One signed-in user's device.
struct Phone {
  let device: CallDevice
  let screen: any CallScreen

  init(
    edges: [String], user token: String, device id: String, screen: any CallScreen,
    newToken: @escaping @Sendable () async throws -> String
  ) {
    var configuration = DeviceConfiguration(edges: edges, token: token, device: id)
    configuration.deviceName = "Ann's phone"
    device = CallDevice(configuration, newToken: newToken)
    self.screen = screen
  }

  /// Runs from sign-in to sign-out.
  func run() async {
    device.start()
    for await event in device.events {
      switch event {
      case .call(let call, let event): await handle(event, of: call)
      // The token is no longer accepted and `newToken` did not help, or another copy of this device is
      // attached.
      case .refused: await screen.signIn()
      case .attached, .detached, .notTrusted, .replied, .gaveUp, .notice, .ongoing, .history,
        .relays:
        break
      }
    }
  }

  private func handle(_ event: CallEvent, of call: CallID) async {
    switch event {
    case .invited(let invite):
      await screen.ring(call, from: invite.caller)
      try? await device.alerting(call)
    case .answered(let answered): await screen.connect(call, description: answered.description)
    case .moved(let moved): await screen.connect(call, description: moved.description)
    case .signal(let signal): await screen.addCandidate(call, signal.body)
    case .stopped(let stop): await screen.end(call, callKitReason: stop.callKitReason())
    case .ringing, .ringsUntil, .won, .transfer: break
    }
  }

  /// The user calls somebody.
  func call(_ user: String, offer: String) async throws(CallError) -> CallID {
    let call = CallID(high: .random(in: 0 ... .max), low: .random(in: 0 ... .max))
    try await device.place(PlaceRequest(call: call, description: offer), to: user)
    return call
  }

  /// The user answers.
  func answer(_ call: CallID, with description: String) async throws(CallError) {
    // If another device was faster, `stopped` says so.
    guard try await device.answer(call, description: description) else { return }
    try await device.connected(call)
  }

  /// The system hands over a push.
  func received(_ payload: [AnyHashable: Any]) async throws(PushReadError) {
    switch try PushReader(.callmesh).read(PayloadValue(payload)) {
    case .invite(let invite): device.woken(for: invite.call, callee: invite.callee)
    case .stop(let stop): await screen.end(stop.call, callKitReason: stop.callKitReason)
    case .missed: break
    }
  }
}
