internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// The steps by which a registration gets its push tokens: claims in the bucket of tokens, and questions to the shards
/// of former owners.
extension ShardWorker {
  /// A question to the shard of a former owner, retransmitted until it is answered.
  struct Exchange {
    var term: ShardTerm
    var token: UInt64
    var message: OutgoingMessage
    var againAt: Timestamp
    var deadline: Timestamp
  }

  private static var repeatsQuestionAfter: Span { .milliseconds(300) }

  func carryOut(_ step: TokenStep, _ token: UInt64, _ shard: HeldShard, now: Timestamp) {
    let term = shard.term
    switch step {
    case .read, .claim: jobs.append(.token(term, token: token, step))
    case .notify(let former, let taken): notify(former, taken, token, term, now: now)
    }
  }

  func tokenStepDone(
    _ term: ShardTerm, _ token: UInt64, _ result: TokenStepResult, now: Timestamp
  ) {
    guard let shard = holding(term) else { return }
    // The device registers with the next owner.
    if case .parting = shard.phase { return }
    decide(shard, now: now) { $0.tokenStepDone(token: token, result, now: now, into: &$1) }
    touch(term.shard)
  }

  // MARK: The bucket

  nonisolated func perform(_ step: TokenStep, _ token: UInt64, _ term: ShardTerm) async {
    let result: TokenStepResult
    switch step {
    case .read(let fingerprint, let app): result = await readOwner(fingerprint, app: app)
    case .claim(let fingerprint, let owner, let revision):
      let key = Subjects.tokenKey(fingerprint, app: owner.user.app)
      switch await tokens.put(key, ClusterCodec.encode(owner), expecting: revision) {
      case .appended:
        metrics.tokenClaims.increment()
        result = .claimed
      case .refused, .unknown: result = .changed
      }
    case .notify: return
    }
    inbox.offer(.tokenStep(term, token: token, result))
  }

  private nonisolated func readOwner(_ fingerprint: String, app: String) async -> TokenStepResult {
    do {
      guard let entry = try await tokens.get(Subjects.tokenKey(fingerprint, app: app)),
        let value = entry.value
      else { return .read(try await formerOwner(fingerprint, app: app), revision: 0) }
      // An unreadable entry names no owner to notify: it is overwritten.
      return .read(try? ClusterCodec.tokenOwner(value), revision: entry.revision)
    } catch {
      return .failed
    }
  }

  /// Earlier versions had one claim for all apps. One that remains counts for its own app until the app has a new one.
  private nonisolated func formerOwner(
    _ fingerprint: String, app: String
  ) async throws -> TokenOwner? {
    let entry = try await tokens.get(Subjects.keyPart(fingerprint))
    guard let value = entry?.value, let owner = try? ClusterCodec.tokenOwner(value),
      owner.user.app.hasBytes(of: app)
    else { return nil }
    return owner
  }

  /// Best effort: a claim that remains costs the token's next owner one question.
  nonisolated func release(_ fingerprint: String, _ owner: TokenOwner) async {
    let key = Subjects.tokenKey(fingerprint, app: owner.user.app)
    guard let entry = try? await tokens.get(key), let value = entry.value,
      let present = try? ClusterCodec.tokenOwner(value), present.isSame(as: owner),
      present.claimedAt <= owner.claimedAt
    else { return }
    _ = await tokens.delete(key, expecting: entry.revision)
  }

  // MARK: Former owners

  private func notify(
    _ former: TokenOwner, _ taken: TokenTaken, _ token: UInt64, _ term: ShardTerm, now: Timestamp
  ) {
    guard listenAsPeer() else { return tokenStepDone(term, token, .failed, now: now) }
    lastExchange += 1
    let command = Command(
      session: SessionRef(edge: peer, number: lastExchange), request: lastExchange,
      user: former.user, device: former.device, callee: former.user, body: .tokenTaken(taken))
    let shard = ShardHash.shard(of: former.user, count: configuration.shardCount)
    let message = OutgoingMessage(
      subject: subjects.peers(shard: shard),
      bytes: ClusterCodec.encode(CommandBatch(peer: peer, commands: [command])))
    let exchange = Exchange(
      term: term, token: token, message: message, againAt: now + Self.repeatsQuestionAfter,
      deadline: now + configuration.formerOwnerTimeout)
    exchanges[lastExchange] = exchange
    exchangeAt = min(exchangeAt, exchange.againAt, exchange.deadline)
    outbox.add(message)
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

  func takeAnswers(_ bytes: [UInt8], now: Timestamp) {
    guard let batch = try? ClusterCodec.edgeBatch(bytes) else {
      return metrics.peerAnswersUnreadable.increment()
    }
    metrics.peerAnswersUnreadable.increment(by: UInt64(batch.unreadable))
    for item in batch.items {
      guard case .reply(let request, let reply) = item.body, let exchange = exchanges[request]
      else { continue }
      switch reply {
      case .done: end(request, exchange, .notified, now: now)
      // It is retransmitted soon.
      case .error(let error) where error.code == .tryAgain: continue
      case .error, .attached, .registered, .call, .answer, .calls:
        end(request, exchange, .failed, now: now)
      }
    }
  }

  private func end(
    _ number: UInt64, _ exchange: Exchange, _ result: TokenStepResult, now: Timestamp
  ) {
    exchanges[number] = nil
    tokenStepDone(exchange.term, exchange.token, result, now: now)
  }

  /// Retransmits the questions that are due, and ends those whose deadline has passed.
  func askAgain(now: Timestamp) {
    guard exchangeAt <= now else { return }
    exchangeAt = .distantFuture
    for number in exchanges.keys.sorted() {
      guard let exchange = exchanges[number] else { continue }
      if exchange.deadline <= now || holding(exchange.term) == nil {
        end(number, exchange, .failed, now: now)
        continue
      }
      if exchange.againAt <= now {
        outbox.add(exchange.message)
        exchanges[number]!.againAt = now + Self.repeatsQuestionAfter
      }
      exchangeAt = min(exchangeAt, exchanges[number]!.againAt, exchange.deadline)
    }
  }
}
