internal import CallCore
internal import CallMachine
internal import CallWire
public import CallmeshClient

/// The subject of a VoIP push.
public enum CallPush: Sendable, Equatable {
  /// A call rings.
  case ring(Address, CallKitMachine.Shown)
  /// A call is over for this device, perhaps one that never rang here.
  case end(CallID, CallKitMachine.EndedReason, CallKitMachine.Shown)
}

/// A push as this device reads it.
public struct ReadPush: Sendable, Equatable {
  /// nil: it cannot be read, or is no push of calls. It must be reported all the same.
  public var push: CallPush?
  /// The deadline of the call that it announces has passed.
  public var isExpired = false

  /// - Parameters:
  ///   - payload: `PKPushPayload.dictionaryPayload`.
  ///   - clusterTime: the cluster's time; nil: not known. Then no push counts as expired: the phone's clock may be
  ///     wrong, and the cluster says so when the device attaches.
  public init(_ payload: [AnyHashable: Any], clusterTime: Timestamp?) {
    guard let news = try? PushReader(.callmesh).read(PayloadValue(payload)) else { return }
    switch news {
    case .invite(let invite):
      push = .ring(
        Address(callee: invite.callee ?? "", call: invite.call),
        CallKitMachine.Shown(
          handle: invite.handle, name: invite.caller?.name ?? "", video: invite.video))
      if let clusterTime,
        case .expired = invite.freshness(at: clusterTime, serverOffset: .seconds(0))
      {
        isExpired = true
      }
    case .stop(let stop):
      push = .end(
        stop.call, CallKitMachine.EndedReason(rawValue: stop.callKitReason) ?? .remoteEnded,
        .unknown)
    case .missed: break
    }
  }
}

extension CallKitMachine.EndedReason {
  /// How the end of a call is to be shown.
  /// - Parameter role: the device's role; a caller's own user did not decline.
  public init(_ end: Call.End, role: Call.Role) {
    let stop = Stop(reason: end.reason)
    self = Self(rawValue: stop.callKitReason(asCaller: role == .caller)) ?? .failed
  }
}
