// Durable Objects, one for each path: a request inserts its body, a JSON string, and is answered with the number of rows.
import { DurableObject } from "cloudflare:workers";

export class Bench extends DurableObject {
	constructor(ctx, env) {
		super(ctx, env);
		this.sql = ctx.storage.sql;
		this.sql.exec("create table if not exists t(id integer primary key, data text not null)");
	}
	async fetch(request) {
		this.sql.exec("insert into t(data) values(?)", await request.json());
		return Response.json(this.sql.exec("select max(id) as n from t").one().n);
	}
}
export default {
	fetch(request, env) {
		return env.BENCH.get(env.BENCH.idFromName(new URL(request.url).pathname)).fetch(request);
	},
};
