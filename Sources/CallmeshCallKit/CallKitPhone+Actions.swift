#if canImport(CallKit) && canImport(PushKit)
  internal import CallKit
  internal import CallmeshClient
  internal import Foundation

  // Carries out the machine's actions.
  extension CallKitPhone {
    func perform(_ action: CallKitMachine.Action) {
      switch action {
      case .report(let id, let shown): report(id, shown)
      case .reportEnded(let id, let reason):
        provider.reportCall(
          with: id.uuid, endedAt: nil,
          reason: CXCallEndedReason(rawValue: reason.rawValue) ?? .failed)
      case .reportConnecting(let id):
        provider.reportOutgoingCall(with: id.uuid, startedConnectingAt: nil)
      case .reportConnected(let id): provider.reportOutgoingCall(with: id.uuid, connectedAt: nil)
      case .fulfill(let id, let action): for pending in pending(id, action) { pending.fulfill() }
      case .fail(let id, let action): for pending in pending(id, action) { pending.fail() }
      case .requestAnswer(let id):
        CXCallController().request(CXTransaction(action: CXAnswerCallAction(call: id.uuid))) { _ in
        }
      case .wake(let address, let isWanted): device.wake(address, isWanted: isWanted)
      case .hold(let id, let isOnHold): device.find(id).map { delegate.hold($0, isOnHold) }
      case .mute(let id, let isMuted): device.find(id).map { delegate.mute($0, isMuted) }
      case .audio(let isActive): delegate.audioSessionChanged(isActive: isActive)
      case .place(let id, let callee, let video): place(id, callee, video: video)
      case .answer, .decline, .declineHere, .busy, .finish: command(action)
      }
    }

    private func report(_ id: CallID, _ shown: CallKitMachine.Shown) {
      let update = CXCallUpdate()
      update.remoteHandle = CXHandle(type: .generic, value: shown.handle)
      update.localizedCallerName = shown.name.isEmpty ? shown.handle : shown.name
      update.hasVideo = shown.video
      (update.supportsHolding, update.supportsDTMF) = (true, false)
      (update.supportsGrouping, update.supportsUngrouping) = (false, false)
      provider.reportNewIncomingCall(with: id.uuid, update: update) { [weak self] error in
        guard let self, let error else { return }
        Task { @MainActor in self.perform { $0.reportFailed(id, Self.kind(of: error)) } }
      }
    }

    private static func kind(of error: any Error) -> CallKitMachine.ReportError {
      switch (error as? CXErrorCodeIncomingCallError)?.code {
      case .callUUIDAlreadyExists: .isShown
      case .filteredByDoNotDisturb, .filteredByBlockList: .isFiltered
      default: .other
      }
    }

    private func pending(_ id: CallID, _ action: CallKitMachine.UserAction) -> [CXCallAction] {
      let kind: AnyClass =
        switch action {
        case .start: CXStartCallAction.self
        case .answer: CXAnswerCallAction.self
        case .end: CXEndCallAction.self
        case .hold: CXSetHeldCallAction.self
        case .mute: CXSetMutedCallAction.self
        }
      return provider.pendingCallActions(of: kind, withCall: id.uuid)
    }

    private func place(_ id: CallID, _ callee: String, video: Bool) {
      Task { @MainActor in
        let offer = await delegate.offer(for: callee)
        // The user may have hung up meanwhile.
        guard isShown(id) else { return }
        var options = PlaceOptions(description: offer, video: video)
        options.id = id
        do throws(CallmeshError) {
          _ = try device.place(callee, options)
        } catch {
          perform { $0.startFailed(id) }
        }
      }
    }

    /// Where it fails, the call's events say so.
    private func command(_ action: CallKitMachine.Action) {
      Task {
        switch action {
        case .answer(let id):
          guard let call = device.find(id) else { return }
          let answer = await delegate.answer(to: call)
          if isShown(id) { _ = try? await call.answer(answer) }
        case .decline(let id): try? await device.find(id)?.decline()
        case .declineHere(let id): try? await device.find(id)?.declineHere()
        case .busy(let id): try? await device.find(id)?.busy()
        case .finish(let id): try? await device.find(id)?.finish()
        default: break
        }
      }
    }
  }
#endif
