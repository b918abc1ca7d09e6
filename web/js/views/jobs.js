// SPDX-License-Identifier: Apache-2.0
// Jobs of all tubes: to find one whose tube is not known.

import {h} from '../dom.js';
import {JobList} from '../job_list.js';
import {live, subscribe} from '../live.js';
import {here, note} from '../router.js';

export function show_jobs(main) {
  document.title = 'Jobs · carillon';
  const list = new JobList({tube: null, query: here().query,
    remember: (query) => note(['jobs'], query)});
  main.append(h('div', {class: 'page-head'}, h('h1', {}, 'Jobs of all tubes')), list.element);
  const close = subscribe(() => live.stats && list.set_counts(live.stats.jobs));
  return () => {
    close();
    list.close();
  };
}
