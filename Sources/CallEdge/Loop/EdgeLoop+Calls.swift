package import CallCore
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
    askAllShards(sender, credential, asker: asker, request: request) { .calls(shard: $0) }
  }

  /// Asks every shard for live calls, for the app's server; the handler gets the answer.
  /// - Parameter page: how many calls the answer lists; further ones have a `next`. nil: the list has no pages.
  /// - Returns: why it was refused; nil where it was not.
  func askForCalls(
    _ command: Command, page: Int? = nil, for handler: HTTPHandler,
    _ question: (_ shard: UInt32) -> AppRequest
  ) -> CallError? {
    let asker = command.session.number
    endpoints[asker] = .request(handler)
    let error = askAllShards(
      (command.user, command.device), command.credential, asker: asker, request: command.request,
      page: page
    ) { .app(question($0)) }
    if error != nil { endpoints.removeValue(forKey: asker) }
    return error
  }

  private func askAllShards(
    _ sender: (user: UserKey, device: DeviceID), _ credential: Credential, asker: UInt64,
    request: UInt64, page: Int? = nil, _ body: (_ shard: UInt32) -> Command.Body
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
    endpoints[number] = .question(
      CallsQuestion(asker: asker, request: request, shardCount: count, page: page))
    for shard in 0..<count {
      var command = Command(
        session: session, request: UInt64(shard) + 1, user: sender.user, device: sender.device,
        callee: sender.user, body: body(UInt32(shard)))
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
    switch question.add(reply) {
    case .waiting: endpoints[session] = .question(question)
    case .complete(let live): finish(question, session: session, live, now: now)
    case .completeForApp(let calls): finish(question, session: session, .app(.calls(calls)))
    case .failed:
      if case .request = endpoints[question.asker] {
        finish(question, session: session, .error(CallError(.tryAgain)))
      } else {
        finish(question, session: session, nil, now: now)
      }
    }
  }

  /// Answers the app's server.
  private func finish(_ question: CallsQuestion, session: UInt64, _ reply: Reply) {
    close(question: session)
    guard case .request(let handler) = endpoints.removeValue(forKey: question.asker) else { return }
    handler.replied(session: question.asker, HTTPAnswer(reply, device: ""))
  }

  private func finish(
    _ question: CallsQuestion, session: UInt64, _ live: LiveCalls?, now: Timestamp
  ) {
    close(question: session)
    device(question.asker)?.handle(at: now) {
      $0.callsListed(request: question.request, live, &$1)
    }
  }

  /// Ends a question. Answers that still come are counted as unknown.
  private func close(question session: UInt64) {
    endpoints.removeValue(forKey: session)
    questionsOpen -= 1
    metrics.callQuestions.add(-1)
  }
}

/// A question for live calls, of a device or of an app's server: it is scattered to all shards, and this gathers their
/// answers.
package struct CallsQuestion {
  /// The session or request that asked, and under which request id.
  package let asker: UInt64
  package let request: UInt64
  /// How many shards have not answered.
  private var open: Int
  private var live = LiveCalls()
  /// For an app's server.
  private var found: [AppCall] = []
  /// How many of them the answer lists, where it is a page.
  private let page: Int?

  package init(asker: UInt64, request: UInt64, shardCount: Int, page: Int? = nil) {
    self.asker = asker
    self.request = request
    self.page = page
    open = shardCount
  }

  package enum Progress: Equatable {
    case waiting
    /// Every shard has answered.
    case complete(LiveCalls)
    case completeForApp(AppCalls)
    /// A shard has no answer: the list would be incomplete.
    case failed
  }

  /// Adds one shard's answer. To be called once for each shard, and not after the end.
  package mutating func add(_ reply: Reply) -> Progress {
    open -= 1
    switch reply {
    case .calls(let part):
      live.placed += part.placed.prefix(LiveCalls.countMaximum - live.placed.count)
      live.received += part.received.prefix(LiveCalls.countMaximum - live.received.count)
      return open > 0 ? .waiting : .complete(live)
    case .app(.calls(let part)):
      found = (found + part.calls).newest(page.map { $0 + 1 } ?? AppReply.callsMax)
      return open > 0 ? .waiting : .completeForApp(list)
    default: return .failed
    }
  }

  private var list: AppCalls {
    guard let page, found.count > page else { return AppCalls(found) }
    return AppCalls(Array(found.prefix(page)), next: found[page - 1].place)
  }
}
