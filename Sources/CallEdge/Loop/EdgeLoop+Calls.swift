internal import CallCore
internal import CallTelemetry
internal import CallWire

/// Questions for a device's live calls, which go to every shard.
extension EdgeLoop {
  /// Questions that may be under way. Policy: refuse (`overloaded`). Each puts a command for every shard into
  /// the outbox.
  static let questionsMax = 64

  /// Asks every shard for a device's live calls; `DeviceSession.callsListed` gets the answer.
  /// - Returns: why it was refused; nil where it was not.
  func askForCalls(
    _ sender: (user: UserKey, device: DeviceID), _ credential: Credential, asker: UInt64,
    request: UInt64
  ) -> CallError? {
    guard questionsOpen < Self.questionsMax else {
      metrics.callQuestionsRefused.increment()
      return CallError(.overloaded, retryAfterMilliseconds: 1000)
    }
    let count = shared.configuration.shardCount
    let number = makeSessionNumber()
    let session = SessionRef(edge: shared.incarnation, number: number)
    questionsOpen += 1
    metrics.callQuestions.add(1)
    endpoints[number] = .question(CallsQuestion(asker: asker, request: request, shardCount: count))
    for shard in 0..<count {
      var command = Command(
        session: session, request: UInt64(shard) + 1, user: sender.user, device: sender.device,
        callee: sender.user, body: .calls(shard: UInt32(shard)))
      command.credential = credential
      if case .refused(let error) = submit(command, now: now) {
        close(question: number)
        return error
      }
    }
    return nil
  }

  /// A shard has answered, or has not in time.
  func answer(_ question: CallsQuestion, session: UInt64, _ reply: Reply, now: Timestamp) {
    var question = question
    switch question.take(reply) {
    case .waiting: endpoints[session] = .question(question)
    case .complete(let live): finish(question, session: session, live, now: now)
    case .failed: finish(question, session: session, nil, now: now)
    }
  }

  private func finish(
    _ question: CallsQuestion, session: UInt64, _ live: LiveCalls?, now: Timestamp
  ) {
    close(question: session)
    device(question.asker)?.handle {
      $0.callsListed(request: question.request, live, now: now, into: &$1)
    }
  }

  /// Ends a question. Answers that still come are counted as unknown.
  private func close(question session: UInt64) {
    endpoints.removeValue(forKey: session)
    questionsOpen -= 1
    metrics.callQuestions.add(-1)
  }
}
