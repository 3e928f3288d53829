internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Commands to other shards, retransmitted until they are answered or their time is over. A new owner of the asking
/// shard repeats those that still matter.
extension ShardWorker {
  struct Exchange {
    enum Subject {
      /// A registration waits for the answer, under this token.
      case token(UInt64)
      /// A diverted call asks for the devices of a user.
      indirect case visit(UserKey, VisitRequest)
      /// A user's history has an entry of an ended call, which is done once the user's shard knows.
      case history(HistoryOutbox.Item)
      // No call waits for the answer.
      case crossing
      case report
    }
    var term: ShardTerm
    var subject: Subject
    var message: OutgoingMessage
    var retransmissions = 0
    var againAt: Timestamp
    var deadline: Timestamp
  }

  private static var backoff: Backoff { Backoff(.milliseconds(300), to: .milliseconds(2400)) }
  /// Policy: refuse. Registrations, crossing calls and changes of histories that wait are far fewer.
  private static var exchangesMax: Int { 65_536 }

  func tell(
    _ user: UserKey, _ device: DeviceID, _ body: Command.Body, until: Timestamp, _ term: ShardTerm,
    now: Timestamp
  ) {
    if case .pushReport = body {
      _ = ask(user, device, body, about: .report, until: until, term, now: now)
      return
    }
    metrics.crossings.increment()
    let isAsked = ask(user, device, body, about: .crossing, until: until, term, now: now)
    if !isAsked { metrics.crossingsUnconfirmed.increment() }
  }

  /// How long an answer about a user's devices is waited for. The call asks anew meanwhile.
  private static var visitTimeout: Span { .seconds(5) }

  func ask(about request: VisitRequest, _ user: UserKey, _ term: ShardTerm, now: Timestamp) {
    metrics.visits.increment()
    let isAsked = ask(
      user, "", .visit(request), about: .visit(user, request),
      until: now + Self.visitTimeout, term, now: now)
    if !isAsked { metrics.visitsUnanswered.increment() }
  }

  /// Asks the shard of a user, in the name of one of its devices.
  /// - Returns: false where it cannot be asked.
  func ask(
    _ user: UserKey, _ device: DeviceID, _ body: Command.Body, about subject: Exchange.Subject,
    until: Timestamp, _ term: ShardTerm, now: Timestamp
  ) -> Bool {
    guard exchanges.count < Self.exchangesMax, listenAsPeer() else { return false }
    lastExchange += 1
    let command = Command(
      session: SessionRef(edge: peer, number: lastExchange), request: lastExchange, user: user,
      device: device, callee: user, body: body)
    let shard = ShardHash.shard(of: user, count: configuration.shardCount)
    let message = OutgoingMessage(
      subject: subjects.peers(shard: shard),
      bytes: ClusterCodec.encode(CommandBatch(peer: peer, commands: [command])))
    let exchange = Exchange(
      term: term, subject: subject, message: message,
      againAt: now + Self.backoff.pause(after: 0), deadline: until)
    exchanges[lastExchange] = exchange
    exchangeAt = min(exchangeAt, exchange.againAt, exchange.deadline)
    outbox.add(message)
    return true
  }

  /// Subscribes to answers, with the first question.
  private func listenAsPeer() -> Bool {
    if peerSubscription != nil { return true }
    do {
      peerSubscription = try bus.subscribe(subjects.replies(to: peer)) { [weak inbox] message in
        inbox?.offer(.peerAnswer(message.bytes))
      }
      return true
    } catch {
      logger.warning(
        "Cannot listen for other shards' answers.", metadata: .keys([.error: "\(error)"]))
      return false
    }
  }

  func receiveAnswers(_ bytes: [UInt8], now: Timestamp) {
    guard let batch = try? ClusterCodec.edgeBatch(bytes) else {
      return metrics.peerAnswersUnreadable.increment()
    }
    metrics.peerAnswersUnreadable.increment(by: UInt64(batch.unreadable))
    for item in batch.items {
      if case .visit(let request, let answer) = item.body {
        visitAnswered(request, answer, now: now)
        continue
      }
      guard case .reply(let request, let reply) = item.body, let exchange = exchanges[request]
      else { continue }
      switch reply {
      case .done: end(request, exchange, isConfirmed: true, now: now)
      // It is retransmitted soon.
      case .error(let error) where error.code == .tryAgain: continue
      case .error, .attached, .registered, .call, .answer, .calls, .history, .rules, .app:
        end(request, exchange, isConfirmed: false, now: now)
      }
    }
  }

  private func visitAnswered(_ number: UInt64, _ answer: VisitAnswer, now: Timestamp) {
    guard let exchange = exchanges[number],
      case .visit(let user, let request) = exchange.subject
    else { return }
    exchanges[number] = nil
    guard let shard = holding(exchange.term) else { return }
    decide(shard, now: now) {
      $0.visited(user, answer, to: request, now: now, into: &$1)
    }
    touch(exchange.term.shard)
  }

  private func end(_ number: UInt64, _ exchange: Exchange, isConfirmed: Bool, now: Timestamp) {
    exchanges[number] = nil
    switch exchange.subject {
    case .token(let token):
      tokenStepDone(exchange.term, token, isConfirmed ? .notified : .failed, now: now)
    case .crossing:
      if !isConfirmed { metrics.crossingsUnconfirmed.increment() }
    case .history(let item): changeNotified(item, now: now)
    case .visit: metrics.visitsUnanswered.increment()
    case .report: break
    }
  }

  /// Retransmits the questions that are due, and ends those whose deadline has passed.
  func askAgain(now: Timestamp) {
    guard exchangeAt <= now else { return }
    exchangeAt = .distantFuture
    for number in exchanges.keys.sorted() {
      guard var exchange = exchanges[number] else { continue }
      if exchange.deadline <= now || holding(exchange.term) == nil {
        end(number, exchange, isConfirmed: false, now: now)
        continue
      }
      if exchange.againAt <= now {
        outbox.add(exchange.message)
        exchange.retransmissions += 1
        exchange.againAt = now + Self.backoff.pause(after: exchange.retransmissions)
        exchanges[number] = exchange
      }
      exchangeAt = min(exchangeAt, exchange.againAt, exchange.deadline)
    }
  }
}
