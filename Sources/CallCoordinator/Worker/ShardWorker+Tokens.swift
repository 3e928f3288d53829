internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// The steps by which a registration gets its tokens: the claims' bucket, and questions to the shards
/// of former owners.
extension ShardWorker {
  /// A step that a child task carries out.
  struct TokenJob: Sendable {
    var term: ShardTerm
    var token: UInt64
    var step: TokenStep
  }

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
    case .read, .claim: tokenJobs.append(TokenJob(term: term, token: token, step: step))
    case .notify(let former, let taken): notify(former, taken, token, term, now: now)
    }
  }

  func tokenStepDone(
    _ term: ShardTerm, _ token: UInt64, _ result: TokenStepResult, now: Timestamp
  ) {
    guard let shard = holding(term) else { return }
    // Who registers asks the next owner.
    if case .parting = shard.phase { return }
    decide(shard, now: now) {
      $0.tokenStepDone(token: token, result, now: now, into: &$1)
    }
    touch(term.shard)
  }

  // MARK: The bucket

  nonisolated func perform(_ job: TokenJob) async {
    let result: TokenStepResult
    switch job.step {
    case .read(let fingerprint, let app): result = await readOwner(fingerprint, app: app)
    case .claim(let fingerprint, let owner, let revision):
      let key = Subjects.tokenKey(fingerprint, app: owner.user.app)
      switch await dependencies.tokens.put(key, ClusterCodec.encode(owner), expecting: revision) {
      case .appended:
        dependencies.metrics.tokenClaims.increment()
        result = .claimed
      case .refused, .unknown: result = .changed
      }
    case .notify: return
    }
    inbox.offer(.tokenStep(job.term, token: job.token, result))
  }

  private nonisolated func readOwner(_ fingerprint: String, app: String) async -> TokenStepResult {
    do {
      guard let entry = try await dependencies.tokens.get(Subjects.tokenKey(fingerprint, app: app)),
        let value = entry.value
      else { return .read(try await formerOwner(fingerprint, app: app), revision: 0) }
      // What nobody can read names nobody who could be told: it is written over.
      return .read(try? ClusterCodec.tokenOwner(value), revision: entry.revision)
    } catch {
      return .failed
    }
  }

  /// Earlier versions had one claim for all apps. One that is left from then counts for its own app until
  /// that has another; as a rule its device has registered anew since, or is told for nothing.
  private nonisolated func formerOwner(_ fingerprint: String, app: String) async throws
    -> TokenOwner?
  {
    let entry = try await dependencies.tokens.get(Subjects.keyPart(fingerprint))
    guard let value = entry?.value, let owner = try? ClusterCodec.tokenOwner(value),
      owner.user.app.hasBytes(of: app)
    else { return nil }
    return owner
  }

  /// Best effort: a claim that is left behind costs the token's next owner one question.
  nonisolated func release(_ fingerprint: String, _ owner: TokenOwner) async {
    let key = Subjects.tokenKey(fingerprint, app: owner.user.app)
    guard let entry = try? await dependencies.tokens.get(key), let value = entry.value,
      let present = try? ClusterCodec.tokenOwner(value), present.isSame(as: owner),
      present.claimedAt <= owner.claimedAt
    else { return }
    _ = await dependencies.tokens.delete(key, expecting: entry.revision)
  }

  // MARK: Former owners

  private func notify(
    _ former: TokenOwner, _ taken: TokenTaken, _ token: UInt64, _ term: ShardTerm, now: Timestamp
  ) {
    guard listenAsPeer() else { return tokenStepDone(term, token, .failed, now: now) }
    lastExchange += 1
    let command = Command(
      session: SessionRef(edge: dependencies.peer, number: lastExchange), request: lastExchange,
      user: former.user, device: former.device, callee: former.user, body: .tokenTaken(taken))
    let shard = ShardHash.shard(of: former.user, count: dependencies.configuration.shardCount)
    let message = OutgoingMessage(
      subject: dependencies.subjects.peers(shard: shard),
      bytes: ClusterCodec.encode(CommandBatch(peer: dependencies.peer, commands: [command])))
    exchanges[lastExchange] = Exchange(
      term: term, token: token, message: message, againAt: now + Self.repeatsQuestionAfter,
      deadline: now + dependencies.configuration.formerOwnerTimeout)
    exchangeAt = min(
      exchangeAt, now + Self.repeatsQuestionAfter,
      now + dependencies.configuration.formerOwnerTimeout)
    outbox.add(message)
  }

  /// Listens where answers come in, from the first question on.
  private func listenAsPeer() -> Bool {
    if peerSubscription != nil { return true }
    do {
      peerSubscription = try dependencies.bus.subscribe(
        dependencies.subjects.replies(to: dependencies.peer)
      ) {
        [weak inbox] message in inbox?.offer(.peerAnswer(message.bytes))
      }
      return true
    } catch {
      dependencies.logger.warning(
        "Cannot listen for other shards' answers.", metadata: .keys([.error: "\(error)"]))
      return false
    }
  }

  func takeAnswers(_ bytes: [UInt8], now: Timestamp) {
    guard let batch = try? ClusterCodec.edgeBatch(bytes) else {
      return dependencies.metrics.peerAnswersUnreadable.increment()
    }
    dependencies.metrics.peerAnswersUnreadable.increment(by: UInt64(batch.unreadable))
    for item in batch.items {
      guard case .reply(let request, let reply) = item.body,
        let exchange = exchanges[request]
      else { continue }
      switch reply {
      case .done: end(request, exchange, .notified, now: now)
      // It is retransmitted in a moment.
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

  /// Retransmits what is due, and gives up what has waited for too long.
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
