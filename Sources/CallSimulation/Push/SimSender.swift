internal import CallBus
internal import CallCore
internal import CallPush
internal import CallTelemetry

/// One gateway process's sender to one provider: the attempts and pauses are the product's.
struct SimSender: PushSender {
  private let provider: SimProvider
  private let lane: PushLane
  private let process: SimNode
  private let attempts: PushAttempts

  init(_ provider: SimProvider, _ lane: PushLane, _ kind: PushProvider, _ process: SimNode) {
    self.provider = provider
    self.lane = lane
    self.process = process
    var environment = SenderEnvironment(
      clock: process.clock(), logger: SimLog.logger(provider.world, process.name))
    environment.chance = { [provider] in provider.chance() }
    attempts = PushAttempts(
      provider: kind, name: lane.rawValue, caFile: nil, limits: SenderLimits(),
      environment: environment)
  }

  func send(_ message: PushMessage) async -> PushOutcome {
    let delivery = await attempts.run(message, .success(message)) { message, context in
      verdict(await ask(message), context)
    }
    provider.ended(message, delivery.outcome, by: process)
    return delivery.outcome
  }

  private func verdict(_ answer: SimProvider.Answer, _ context: AttemptContext) -> AttemptVerdict {
    switch answer {
    case .accepted: .done(.accepted)
    case .acceptedIn(let environment): .done(.acceptedIn(environment: environment))
    case .gone(let since): .done(.tokenGone(at: since))
    case .rejected(let reason): .done(.rejected(reason: reason))
    case .tokenRefused where provider.givesUp, .trouble where provider.givesUp:
      .done(.failed(reason: "given up"))
    case .tokenRefused: .tokenRefused(TokenRefusal("BadDeviceToken"))
    case .trouble(let reason, let wait): context.retry(after: wait, reason: reason)
    case .none: context.inDoubt("no answer in time")
    }
  }

  private func ask(_ message: PushMessage) async -> SimProvider.Answer {
    let sending = SimSending(process)
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        sending.continuation = continuation
        provider.receive(message, lane: lane, sending)
        if Task.isCancelled { sending.end(.none) }
      }
    } onCancel: {
      provider.forget(sending)
      sending.end(.none)
    }
  }

  func close() async { await attempts.close() }
}

/// An attempt that waits for its answer.
final class SimSending: @unchecked Sendable {
  let process: SimNode
  var continuation: CheckedContinuation<SimProvider.Answer, Never>?
  init(_ process: SimNode) { self.process = process }
  func end(_ answer: SimProvider.Answer) { continuation.take()?.resume(returning: answer) }
}
