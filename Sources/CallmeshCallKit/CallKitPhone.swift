// The glue. Apple's SDK is on Apple's platforms only; elsewhere it is type-checked against declarations of our own
// (deploy/dev/apple.sh). It has not run on a device.
#if canImport(CallKit) && canImport(PushKit)
  #if canImport(AVFAudio)
    public import AVFAudio
  #endif
  public import CallKit
  public import CallmeshClient
  public import Foundation
  internal import Synchronization

  /// The tasks of the app itself.
  public protocol CallKitPhoneDelegate: AnyObject, Sendable {
    /// This device has the call, or the other side has moved: connect media. Say `call.connected()` when they flow.
    func connect(_ call: Call, description: String)
    /// The call is over: drop its media.
    func ended(_ call: Call)
    /// Send no media meanwhile, and play none.
    func hold(_ call: Call, _ isOnHold: Bool)
    func mute(_ call: Call, _ isMuted: Bool)
    /// The audio session is active: `RTCAudioSession.audioSessionDidActivate`, and enable audio. Or it is no longer.
    func audioSessionChanged(isActive: Bool)
    /// Register the token with ``Device/register(_:)``; nil: it is no longer valid.
    func pushTokenChanged(_ token: Data?)
    /// The session descriptions of calls and answers.
    func offer(for callee: String) async -> String
    func answer(to call: Call) async -> String
  }

  /// Binds a device to PushKit and CallKit. Make one when the app is launched, before `didFinishLaunching` returns.
  ///
  /// All decisions are `CallKitMachine`'s. This class has no rules of its own.
  public final class CallKitPhone: NSObject, Sendable {
    let device: Device
    let delegate: any CallKitPhoneDelegate
    let provider: CXProvider
    private let machine = Mutex(CallKitMachine())

    public init(
      _ device: Device, configuration: CXProviderConfiguration,
      delegate: any CallKitPhoneDelegate
    ) {
      (self.device, self.delegate) = (device, delegate)
      provider = CXProvider(configuration: configuration)
      super.init()
      provider.setDelegate(self, queue: .main)
      let events = device.events
      // Ends with the device's events.
      Task { @MainActor [weak self] in
        for await event in events { self?.happened(event) }
      }
    }

    /// Asks the machine, and performs its actions. Called on the main queue alone, where CallKit and PushKit call as
    /// well: so what two of them want is done in the machine's order.
    func perform(_ body: (inout CallKitMachine) -> [CallKitMachine.Action]) {
      for action in machine.withLock({ body(&$0) }) { perform(action) }
    }

    func isShown(_ id: CallID) -> Bool { machine.withLock { $0.shown.contains(id) } }

    private func happened(_ event: Device.Event) {
      guard case .call(let call, let event) = event else { return }
      let shown = CallKitMachine.Shown(
        handle: call.peer?.user ?? "", name: call.peer?.name ?? "", video: call.video)
      switch event {
      case .incoming:
        let (crosses, isConsulted) = (call.crosses != nil, call.consulted != nil)
        perform { $0.incoming(call.id, shown, crosses: crosses, isConsulted: isConsulted) }
        // A call that the system does not show alerts nobody: it crosses another one, or the user has left it.
        if isShown(call.id) { Task { try? await call.alerting() } }
      case .placed: perform { $0.placed(call.id) }
      case .answered(_, let description, _):
        perform { $0.answered(call.id, shown) }
        // The user may have ended it before it was won.
        if isShown(call.id) { delegate.connect(call, description: description) }
      case .moved(_, let description): delegate.connect(call, description: description)
      case .ringing(by: nil) where call.role == .callee: perform { $0.answerFailed(call.id) }
      case .ended(let end):
        let reason = CallKitMachine.EndedReason(end, role: call.role)
        perform { $0.ended(call.id, reason) }
        delegate.ended(call)
      case .state, .ringing, .ringsUntil, .answering, .connected, .transfer: break
      }
    }
  }
#endif
