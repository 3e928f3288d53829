#if canImport(CallKit) && canImport(PushKit)
  #if canImport(AVFAudio)
    public import AVFAudio
  #endif
  public import CallKit
  internal import CallmeshClient
  internal import Foundation
  public import PushKit

  extension CallKitPhone: CXProviderDelegate {
    public func providerDidReset(_ provider: CXProvider) { perform { $0.reset() } }

    public func provider(_ provider: CXProvider, perform action: CXStartCallAction) {
      let (id, handle, video) = (CallID(action.callUUID), action.handle.value, action.isVideo)
      perform { $0.start(id, handle: handle, video: video) }
    }

    public func provider(_ provider: CXProvider, perform action: CXAnswerCallAction) {
      let id = CallID(action.callUUID)
      perform { $0.answer(id) }
    }

    public func provider(_ provider: CXProvider, perform action: CXEndCallAction) {
      let id = CallID(action.callUUID)
      perform { $0.end(id) }
    }

    public func provider(_ provider: CXProvider, perform action: CXSetHeldCallAction) {
      let (id, isOnHold) = (CallID(action.callUUID), action.isOnHold)
      perform { $0.hold(id, isOnHold) }
    }

    public func provider(_ provider: CXProvider, perform action: CXSetMutedCallAction) {
      let (id, isMuted) = (CallID(action.callUUID), action.isMuted)
      perform { $0.mute(id, isMuted) }
    }

    public func provider(_ provider: CXProvider, timedOutPerforming action: CXAction) {
      guard let action = action as? CXCallAction else { return }
      let id = CallID(action.callUUID)
      let kind: CallKitMachine.UserAction =
        switch action {
        case is CXStartCallAction: .start
        case is CXAnswerCallAction: .answer
        case is CXEndCallAction: .end
        case is CXSetHeldCallAction: .hold
        default: .mute
        }
      perform { $0.timedOut(id, kind) }
    }

    public func provider(_ provider: CXProvider, didActivate audioSession: AVAudioSession) {
      perform { $0.audioChanged(isActive: true) }
    }

    public func provider(_ provider: CXProvider, didDeactivate audioSession: AVAudioSession) {
      perform { $0.audioChanged(isActive: false) }
    }
  }

  extension CallKitPhone: PKPushRegistryDelegate {
    public func pushRegistry(
      _ registry: PKPushRegistry, didUpdate credentials: PKPushCredentials, for type: PKPushType
    ) {
      if type == .voIP { delegate.pushTokenChanged(credentials.token) }
    }

    public func pushRegistry(
      _ registry: PKPushRegistry, didInvalidatePushTokenFor type: PKPushType
    ) {
      if type == .voIP { delegate.pushTokenChanged(nil) }
    }

    /// The call is reported before this returns, whatever the push says: iOS ends apps that do not.
    public func pushRegistry(
      _ registry: PKPushRegistry, didReceiveIncomingPushWith payload: PKPushPayload,
      for type: PKPushType, completion: @escaping () -> Void
    ) {
      let read = ReadPush(
        payload.dictionaryPayload, clusterTime: device.clusterTime.map { Timestamp($0) })
      perform { $0.pushed(read.push, isExpired: read.isExpired, spare: .random()) }
      completion()
    }
  }
#endif
