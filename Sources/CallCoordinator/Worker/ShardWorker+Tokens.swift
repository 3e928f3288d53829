internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// The steps by which a registration gets its push tokens: claims in the bucket of tokens, and questions to the shards
/// of former owners.
extension ShardWorker {
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
    let isAsked = ask(
      former.user, former.device, .tokenTaken(taken), about: .token(token),
      until: now + configuration.formerOwnerTimeout, term, now: now)
    if !isAsked { tokenStepDone(term, token, .failed, now: now) }
  }
}
